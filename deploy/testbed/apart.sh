#!/bin/bash
# apart.sh COMMAND...: run COMMAND in a private copy of this host, so that several testbeds stand beside each other.
#
# It has its own processes, its own network (loopback only) and its own layer over /etc, /home, /opt and /var; /run and
# /dev/shm are empty. All else is shared; with COMMAND everything ends. Where the host allows root no namespaces, COMMAND runs
# on the host itself, one such command at a time; without root, where no testbed starts, just so.
set -eu
if [ "${1:-}" != --inside ]; then
    [ $# -gt 0 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
    [ "$(id -u)" -eq 0 ] || exec "$@"
    if unshare -mnpf --mount-proc --kill-child bash "$0" --inside true 2>/dev/null; then
        exec unshare -mnpf --mount-proc --kill-child bash "$0" --inside "$@"
    fi
    echo "apart.sh: no namespaces here; on the host itself, one at a time" >&2
    exec flock /run/mirage-testbed.apart "$@"
fi
shift
ip link set lo up
# Loopback alone does not count as a network: resolvers then refuse even 127.0.0.1 (AI_ADDRCONFIG).
ip link add apart0 type veth peer name apart1
ip addr add 192.0.2.1/24 dev apart0
ip link set apart0 up
ip link set apart1 up
# In memory: an overlay's upper layer may not lie on an overlay, which is what a container's disk is.
layers=/mnt
mount -t tmpfs -o mode=755 tmpfs "$layers"
for place in etc home opt var; do
    mkdir -p "$layers/$place/upper" "$layers/$place/work"
    mount -t overlay overlay -o "lowerdir=/$place,upperdir=$layers/$place/upper,workdir=$layers/$place/work" "/$place"
done
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -m 1777 /run/lock
# libfaketime calls its semaphores by process number, which in here are others'.
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
exec "$@"
