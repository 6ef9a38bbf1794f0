//! In: the binary. Out: .deb and .rpm with man pages, completions and units, made by the distributions' own tools.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::dist::{Architecture, VERSION, set};
use crate::process;

const SUMMARY: &str = "runs any mount client from a container image, without privileges";
const DESCRIPTION: &str = "Mount clients (sshfs, s3fs, mount.nfs and others) run in a sandbox from an image of their own, and their mounts appear on the host, which has nothing of them installed.";
const MAINTAINER: &str = "The Shorefast developers <shorefast@localhost>";

/// Files as they are installed.
pub(super) fn tree(binary: &Path, tree: &Path, time: u64) -> Result<()> {
    let put = |from: &Path, to: &str, mode: u32| -> Result<()> {
        let to = tree.join(to);
        fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
        fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        set(&to, mode, time)
    };
    put(binary, "usr/bin/shorefast", 0o755)?;
    put("docs/completions/shorefast.bash".as_ref(), "usr/share/bash-completion/completions/shorefast", 0o644)?;
    put("docs/completions/_shorefast".as_ref(), "usr/share/zsh/vendor-completions/_shorefast", 0o644)?;
    put("docs/completions/shorefast.fish".as_ref(), "usr/share/fish/vendor_completions.d/shorefast.fish", 0o644)?;
    for file in ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        put(file.as_ref(), &format!("usr/share/doc/shorefast/{file}"), 0o644)?;
    }
    for page in fs::read_dir("docs/man")? {
        let page = page?.path();
        let name = page.file_name().and_then(|name| name.to_str()).context("a page has a name")?.to_owned();
        let section = page.extension().and_then(|section| section.to_str()).context("a page is of a section")?;
        let to = format!("usr/share/man/man{section}/{name}");
        put(&page, &to, 0o644)?;
        process::run(Command::new("gzip").args(["-9", "--no-name"]).arg(tree.join(&to)))?;
        set(&tree.join(format!("{to}.gz")), 0o644, time)?;
    }
    for unit in ["shorefast.service", "var-lib-shorefast.mount"] {
        let text =
            fs::read_to_string(Path::new("deploy/systemd").join(unit))?.replace("/usr/local/lib/shorefast/shorefast", "/usr/bin/shorefast");
        let to = tree.join("usr/lib/systemd/system").join(unit);
        fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
        fs::write(&to, text)?;
        set(&to, 0o644, time)?;
    }
    Ok(())
}

/// Live mounts hold what they need: an upgrade or a removal ends none of them. Only a purge removes images, and none that is mounted.
const POSTRM: &str = r#"#!/bin/sh
set -e
if [ "$1" = purge ] && [ -d /var/lib/shorefast ]; then
    if grep -q ' /var/lib/shorefast[/ ]' /proc/self/mountinfo; then
        echo "/var/lib/shorefast is mounted, and stays" >&2
    else
        rm -rf --one-file-system /var/lib/shorefast
    fi
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
"#;
const POSTINST: &str = "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n";

pub(super) fn deb(architecture: Architecture, tree: &Path, out: &Path, time: u64) -> Result<()> {
    let control = tree.join("DEBIAN");
    fs::create_dir(&control)?;
    let size = process::output(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree.join("usr")))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let fields = format!(
        "Package: shorefast\nVersion: {VERSION}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\nSection: admin\nPriority: optional\nDescription: {SUMMARY}\n {DESCRIPTION}\n",
        architecture.debian
    );
    for (name, content, mode) in [("control", fields.as_str(), 0o644), ("postinst", POSTINST, 0o755), ("postrm", POSTRM, 0o755)] {
        fs::write(control.join(name), content)?;
        set(&control.join(name), mode, time)?;
    }
    let file = out.join(format!("shorefast_{VERSION}_{}.deb", architecture.debian));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree).arg(file).env("SOURCE_DATE_EPOCH", time.to_string());
    process::output(&mut build)?;
    fs::remove_dir_all(control).context("cannot tidy up")
}

pub(super) fn rpm(architecture: Architecture, tree: &Path, out: &Path, time: u64) -> Result<()> {
    let work = tempfile::tempdir().context("cannot make a directory")?;
    // Elsewhere zsh and fish look in other places, and documentation is marked as such.
    let spec = format!(
        "Name: shorefast\nVersion: {VERSION}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\nAutoReqProv: no\n\
         %description\n{DESCRIPTION}\n%install\ncp -a {tree}/. %{{buildroot}}\n\
         mkdir -p %{{buildroot}}/usr/share/zsh/site-functions\nmv %{{buildroot}}/usr/share/zsh/vendor-completions/_shorefast %{{buildroot}}/usr/share/zsh/site-functions/\n\
         rmdir %{{buildroot}}/usr/share/zsh/vendor-completions\n\
         %files\n/usr/bin/shorefast\n/usr/lib/systemd/system/*\n/usr/share/bash-completion/completions/shorefast\n/usr/share/zsh/site-functions/_shorefast\n\
         /usr/share/fish/vendor_completions.d/shorefast.fish\n%doc /usr/share/doc/shorefast\n/usr/share/man/man*/*\n",
        tree = tree.display()
    );
    let file = work.path().join("shorefast.spec");
    fs::write(&file, spec)?;
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", architecture.rust]).env("SOURCE_DATE_EPOCH", time.to_string());
    let defines = [
        format!("_topdir {}", work.path().display()),
        "_buildhost reproducible".to_owned(),
        "use_source_date_epoch_as_buildtime 1".to_owned(),
        "clamp_mtime_to_source_date_epoch 1".to_owned(),
        "_build_id_links none".to_owned(),
        "debug_package %{nil}".to_owned(),
        "__os_install_post %{nil}".to_owned(),
        "_binary_payload w6.xzdio".to_owned(),
    ];
    for define in defines {
        build.arg("--define").arg(define);
    }
    process::output(build.arg(&file))?;
    let name = format!("shorefast-{VERSION}-1.{}.rpm", architecture.rust);
    fs::copy(work.path().join("RPMS").join(architecture.rust).join(&name), out.join(&name)).context("rpmbuild made no package")?;
    Ok(())
}
