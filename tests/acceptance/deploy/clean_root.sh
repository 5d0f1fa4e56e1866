#!/bin/bash
# clean_root.sh FOLDER ROOT: a root of its own over ROOT, in memory; FOLDER is its /srv. It ends with its standard input.
#
# Nothing of the host can be written from inside: all of ROOT is below a layer, and /dev, /run, /tmp and /var/tmp are new. Called by
# clean_root.py through unshare.
set -eu
ip link set lo up
# Loopback alone does not count as a network (deploy/testbed/apart.sh).
ip link add clean0 type veth peer name clean1
ip addr add 192.0.2.1/24 dev clean0
ip link set clean0 up
ip link set clean1 up
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$2,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
cd /mnt/root
for place in dev run tmp var/tmp; do
    mount -t tmpfs -o mode=755 tmpfs "$place"
done
chmod 1777 tmp var/tmp
for node in null zero full random urandom tty; do
    touch "dev/$node"
    mount --bind "/dev/$node" "dev/$node"
done
ln -s /proc/self/fd dev/fd
mkdir -m 1777 dev/shm run/lock
mount -t proc proc proc
mount -o bind,ro "$1" srv
# Ready only once the root is this one: who enters before works on the host's.
exec chroot . sh -c 'echo ready && exec cat'
