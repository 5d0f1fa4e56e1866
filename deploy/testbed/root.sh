#!/bin/bash
# root.sh RELEASE FOLDER MIRROR: make a root of that Debian release in FOLDER. roots.py calls it, and hashes it.
#
# In it are Slurm as Debian has it, what tests compile with, and a Python in /opt/mirage with what tests of the marker slurm
# need. A checkout is mounted at /srv/mirage (apart.sh), and mirage is imported from there.
set -eu
umask 022
if [ "${1:-}" != --inside ]; then
    # What debootstrap and we mount ends with us, however we end.
    exec unshare -mpf --kill-child bash "$0" --inside "$@"
fi
release=$2 root=$3 mirror=$4
checkout=$(realpath "$(dirname "$0")/../..")
packages=ca-certificates,git,iproute2,gcc,libc6-dev,locales,make,openssh-client,procps,python3,python3-venv,sudo
keys=/usr/share/keyrings/debian-archive-keyring.gpg

debootstrap --variant=minbase --force-check-gpg --keyring="$keys" --include="$packages" "$release" "$root" "$mirror"
chmod 755 "$root/root" # the tests' users run the Python that is in there
# How this host reaches packages, the root does too.
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt /etc/apt/apt.conf.d/*proxy*; do
    [ ! -f "$file" ] || cp --dereference "$file" "$root$file"
done
mkdir -p "$root/srv/mirage" "$root/srv/shared"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount --bind "$checkout" "$root/srv/mirage"
export HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
chroot "$root" bash -eu -c '
cd /srv/mirage
python3 deploy/testbed/testbed.py install
apt-get install -q -y --no-install-recommends libslurm-dev
apt-get clean
python3 -m venv /opt/mirage
/opt/mirage/bin/pip install --no-cache-dir --disable-pip-version-check --progress-bar off --no-deps --require-hashes -r requirements/test.txt
/opt/mirage/bin/pip install --no-cache-dir --disable-pip-version-check --progress-bar off --no-deps --no-build-isolation -e . -e slurm_plugin'
