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

pub const OF_INSPECT: &str = "\
Examples:
  All that is known of a mount, or of the last one there
    shorefast inspect /mnt
  Only how its client ended
    shorefast inspect --json /mnt | jq .client_ended";

pub const OF_RECONCILE: &str = "\
Examples:
  Clean up now, and say what was done
    shorefast reconcile --json";

pub const OF_DEMO: &str = "\
Examples:
  See what a mount consists of; nothing is left
    shorefast demo
  Keep it for trying things out
    shorefast demo --keep";

pub const OF_SERVE: &str = "\
Examples:
  A CSI driver on a node of Kubernetes
    shorefast serve --csi --node-id \"$NODE_NAME\"
  Volumes for Docker and Podman
    shorefast serve --docker";

pub const OF_CLIENTS: &str = "\
Examples:
  Which clients are there, and from which images?
    shorefast client list
  A line to start from
    shorefast client show sshfs --example";

pub const OF_CLIENT_SHOW: &str = "\
Examples:
  What is in force for a type, and where each key comes from
    shorefast client show nfs4
  A line to start from
    shorefast client show sshfs --example";

pub const OF_CLIENT_NEW: &str = "\
Examples:
  A definition to start from
    shorefast client new myfs --image registry.example/myfs:1 > /etc/shorefast/clients.d/myfs.toml
  For a client that serves a directory of this host, and stays in the foreground
    shorefast client new myfs --path --foreground --image dir:/srv/myfs -- myfs -f {source} {target} -o {options}";

pub const OF_CLIENT_TEST: &str = "\
Examples:
  Try a definition with a server
    shorefast client test myfs.toml --source server:/share
  Without writing, for a machine to read
    shorefast client test myfs.toml --source server:/share -o ro --json";

pub const OF_IMAGES: &str = "\
Examples:
  Which images are here, and who uses them?
    shorefast image list
  Get a client's image ahead of its first mount
    shorefast image pull 'packages:debian/trixie?sshfs'";

pub const OF_OUTDATED: &str = "\
Examples:
  Which images have security updates?
    shorefast image outdated
  Get all that is newer
    shorefast image pull --all";

pub const OF_BUILD: &str = "\
Examples:
  An image of one package and what it needs
    shorefast image build --packages sshfs --suite trixie
  The same packages again, on another machine
    shorefast image build --packages sshfs --suite trixie --write-lock sshfs.lock
    shorefast image build --lock sshfs.lock";

pub const OF_EXPORT: &str = "\
Examples:
  To a file, for a machine without a network
    shorefast image export 'packages:debian/trixie?sshfs' oci-archive:sshfs.tar
  For docker load
    shorefast image export 'packages:debian/trixie?sshfs' docker-archive:sshfs.tar";

pub const OF_PUSH: &str = "\
Examples:
  To a registry of your own
    shorefast image push 'packages:debian/trixie?sshfs' registry.example/clients/sshfs:1";

pub const OF_IMAGE_LIST: &str = "\
Examples:
  Which images does no mount use?
    shorefast image list --json | jq '.[] | select(.used_by == [])'";

pub const OF_IMAGE_INSPECT: &str = "\
Examples:
  Digest, size and place of an image
    shorefast image inspect 'packages:debian/trixie?sshfs'";

pub const OF_REMOVE: &str = "\
Examples:
  Remove an image that no mount uses
    shorefast image remove 'packages:debian/trixie?sshfs'";

pub const OF_GC: &str = "\
Examples:
  Remove what has no name and no user
    shorefast image gc";

pub const OF_PRUNE: &str = "\
Examples:
  Free what is not needed
    shorefast image prune
  Free also all images that no mount uses now
    shorefast image prune --all";

pub const OF_SHOREFAST: &str = "\
Examples:
  Mount, look, unmount
    shorefast mount -t sshfs user@host:/data /mnt
    shorefast list
    shorefast umount /mnt
  What is missing on this host?
    shorefast doctor
  A mount to look at, with a server of its own
    shorefast demo";
