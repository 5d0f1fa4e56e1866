#!/bin/bash
# apart.sh [--root RELEASE] COMMAND...: run COMMAND in a private copy of this host, so that several testbeds stand beside each other.
#
# The copy has its own processes, its own network (loopback only) and its own layer over /etc, /home, /opt and /var; /run and
# /dev/shm are empty. All else is shared; the copy ends with COMMAND. If the host allows root no namespaces, COMMAND runs on
# the host itself, one such command at a time. Without root no testbed starts, and COMMAND runs on the host unchanged.
#
# With --root COMMAND runs in a root of that Debian release (testbed.py root makes the root, with a Python for the tests),
# below a layer in memory: no change stays. There this checkout is /srv/mirage, a folder `shared` beside the checkout is
# /srv/shared, and /tmp is the host's.
set -eu
here=$(realpath "$(dirname "$0")")
checkout=$(realpath "$here/../..")
if [ "${1:-}" != --inside ]; then
    root=
    if [ "${1:-}" = --root ] && [ $# -gt 1 ]; then
        root=$(python3 "$here/testbed.py" root "$2")
        exec 9<"$root/.mirage-root"
        flock --shared 9 # kept while COMMAND runs: a root in use is not removed
        shift 2
    fi
    [ $# -gt 0 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
    [ "$(id -u)" -eq 0 ] || exec "$@"
    if unshare -mnpf --mount-proc --kill-child bash "$0" --inside "" true 2>/dev/null; then
        exec unshare -mnpf --mount-proc --kill-child bash "$0" --inside "$root" "$@"
    fi
    [ -z "$root" ] || { echo "apart.sh: no namespaces here, and so nothing runs in a root" >&2; exit 1; }
    echo "apart.sh: no namespaces here; on the host itself, one at a time" >&2
    exec flock /run/mirage-testbed.apart "$@"
fi
root=$2
shift 2
ip link set lo up
# Loopback alone does not count as a network: resolvers then refuse even 127.0.0.1 (AI_ADDRCONFIG).
ip link add apart0 type veth peer name apart1
ip addr add 192.0.2.1/24 dev apart0
ip link set apart0 up
ip link set apart1 up
# In memory: an overlay's upper layer may not lie on an overlay, which is what a container's disk is.
layers=/mnt
mount -t tmpfs -o mode=755 tmpfs "$layers"

# layer NAME LOWER PLACE: what is written at PLACE, which shows LOWER, goes into memory.
layer() {
    mkdir -p "$layers/$1/upper" "$layers/$1/work"
    mount -t overlay overlay -o "lowerdir=$2,upperdir=$layers/$1/upper,workdir=$layers/$1/work" "$3"
}

top=
if [ -n "$root" ]; then
    top=$layers/top
    mkdir "$top"
    layer root "$root" "$top"
    mount -t proc proc "$top/proc"
    mount --rbind /sys "$top/sys"
    mount --rbind /dev "$top/dev"
    mount --bind /tmp "$top/tmp"
    mount --bind "$checkout" "$top/srv/mirage"
    [ ! -d "$checkout/../shared" ] || mount --bind "$checkout/../shared" "$top/srv/shared"
else
    for place in etc home opt var; do
        layer "$place" "/$place" "/$place"
    done
fi
mount -t tmpfs -o mode=755 tmpfs "$top/run"
mkdir -m 1777 "$top/run/lock"
# libfaketime calls its semaphores by process number, which in here are others'.
mount -t tmpfs -o mode=1777 tmpfs "$top/dev/shm"
[ -n "$root" ] || exec "$@"
export HOME=/root LANG=C.UTF-8 PATH=/opt/mirage/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot "$top" bash -c 'cd /srv/mirage && exec "$@"' bash "$@"
