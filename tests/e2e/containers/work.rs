//! A container that uses its volume all the time, and counts what fails.

use shorefast_tests::runtimes::Runtime;
use shorefast_tests::{Host, command, wait};

/// Makes, writes, reads, renames and removes; remembers what failed, and goes on.
const SCRIPT: &str = "
t() { \"$@\" > /dev/null 2>> /tmp/said || { f=$((f+1)); echo \"$*\" >> /tmp/failed; }; }
write() { echo $i > /data/n; }
right() { read -r line < /data/n && [ \"$line\" = $i ]; }
i=0; f=0
while :; do
  i=$((i+1))
  t write; t right; t mkdir /data/d; t touch /data/d/a; t mv /data/d/a /data/d/b; t cat /data/d/b; t ls /data; t rm /data/d/b; t rmdir /data/d
  echo $i $f > /tmp/count.new; mv /tmp/count.new /tmp/count
done";

pub(crate) struct Worker<'a> {
    /// docker or podman.
    engine: &'a str,
    name: &'a str,
}

impl<'a> Worker<'a> {
    /// With further options of the container engine.
    pub(crate) fn start(host: &Host, runtime: &Runtime, engine: &'a str, name: &'a str, options: &[&str]) -> Self {
        runtime.run_with(host, name, options, &["sh", "-c", SCRIPT]);
        Self { engine, name }
    }

    /// Rounds, and failures.
    pub(crate) fn count(&self) -> (u64, u64) {
        let text = wait::until("a count", || Some(self.read("/tmp/count")).filter(|text| text.contains(' ')));
        let (done, failed) = text.split_once(' ').expect("two numbers");
        (done.parse().expect("a number"), failed.parse().expect("a number"))
    }

    /// It has gone on since now, and nothing has ever failed.
    #[track_caller]
    pub(crate) fn assert_unharmed(&self) {
        let (before, _) = self.count();
        let failed = wait::until("more work", || Some(self.count()).filter(|(done, _)| *done > before + 1)).1;
        assert_eq!(failed, 0, "{}\n{}", self.read("/tmp/failed"), self.read("/tmp/said"));
    }

    fn read(&self, file: &str) -> String {
        let mut cat = std::process::Command::new(self.engine);
        cat.args(["exec", self.name, "cat", file]);
        command::finish(cat).stdout.trim().to_owned()
    }
}
