//! The points at which crash tests kill this process. Compiled out of a normal build.

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point { $($(#[$doc])* $name),* }

        impl Point {
            pub const ALL: &[Point] = &[$(Point::$name),*];

            pub fn name(self) -> &'static str {
                match self { $(Point::$name => stringify!($name)),* }
            }
        }
    };
}

points! {
    TargetOpened,
    ImageResolved,
    RecordBegun,
    CgroupMade,
    SandboxStands,
    ClientLaunched,
    KeeperStarted,
    /// After a call of the client was answered.
    CallAnswered,
    /// Complete and recorded, but not attached.
    Served,
    Attached,
    KeeperReleased,
    ClientReleased,
    RecordFinished,
}

/// Dies here if the test asked for it.
#[cfg(feature = "kill-points")]
pub fn pass(point: Point) {
    if std::env::var("SHOREFAST_KILL_AT").is_ok_and(|name| name == point.name()) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "kill-points"))]
pub fn pass(_: Point) {}
