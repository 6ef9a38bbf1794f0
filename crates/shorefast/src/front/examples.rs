//! Lines to start from, for `--help` and the man pages. Pairs: what it does, the line.

pub const OF_MOUNT: &str = "\
Examples:
  Mount a directory of a server through SSH
    shorefast mount -t sshfs -o IdentityFile=/root/.ssh/id_ed25519 user@host:/data /mnt
  Mount an NFS export read-only
    shorefast mount -t nfs -o ro,vers=4.2 server:/export /mnt
  Mount a Windows share, with the password from a file
    shorefast mount -t cifs -o username=me --secret-file /root/smb.password //server/share /mnt
  Show how the client would be called, and do nothing
    shorefast mount --dry-run -t nfs server:/export /mnt
  Print a systemd unit for it
    shorefast mount --unit -t nfs -o vers=4.2 server:/export /mnt";

pub const OF_UMOUNT: &str = "\
Examples:
  Unmount
    shorefast umount /mnt
  Unmount although a program still uses it; what that has open works until it ends
    shorefast umount --lazy /mnt";

pub const OF_UPGRADE: &str = "\
Examples:
  Get the newest image of a client, and let all its mounts have it
    shorefast image pull 'packages:debian/trixie?sshfs'
    shorefast upgrade --client sshfs
  Show what would change, and do nothing
    shorefast upgrade --all --dry-run";

pub const OF_LIST: &str = "\
Examples:
  Which mounts do not work?
    shorefast list --json | jq '.[] | select(.state != \"serving\")'
  What became of those that are gone, or that failed?
    shorefast list --all";

pub const OF_LOGS: &str = "\
Examples:
  Follow what a client says
    shorefast logs -f /mnt
  What it said last, also where the mount is gone or could not be made
    shorefast logs --tail 20 /mnt
  What it said in the last ten minutes
    shorefast logs --since 10m /mnt";

pub const OF_PULL: &str = "\
Examples:
  Get a client's image ahead of its first mount
    shorefast image pull 'packages:debian/trixie?sshfs'
  Get an image of a registry, exactly that one
    shorefast image pull registry.example/clients/nfs@sha256:…";

pub const OF_IMPORT: &str = "\
Examples:
  Take an image from a file, without a network, as the image of the built-in sshfs
    shorefast image import oci-archive:sshfs.tar 'packages:debian/trixie?sshfs'
  Take what docker or podman saved
    shorefast image import docker-archive:clients.tar registry.example/clients/nfs:1";

pub const OF_CHECK: &str = "\
Examples:
  Check all definitions of this host
    shorefast client check /etc/shorefast/clients.d";

pub const OF_INSTALL: &str = "\
Examples:
  For fstab and mount(8)
    shorefast install --helpers nfs,nfs4,sshfs
  For a Kubernetes node
    shorefast install --kubelet --systemd
  Show what would be done
    shorefast install --kubelet --dry-run";

pub const OF_UNINSTALL: &str = "\
Examples:
  Remove the program; images and what clients remember stay
    shorefast uninstall
  Remove everything but the configuration in /etc/shorefast
    shorefast uninstall --purge";

pub const OF_DOCTOR: &str = "\
Examples:
  Can this host mount NFS?
    shorefast doctor nfs";

pub const OF_COMPLETIONS: &str = "\
Examples:
  For this shell
    source <(shorefast completions bash)
  For all users of this host (`install` does it where it can)
    shorefast completions bash > /usr/local/share/bash-completion/completions/shorefast";
