//! The points at which crash tests kill this process. Compiled out of a normal build.

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point { $($(#[$doc])* $name),* }

        impl Point {
            const ALL: &[Point] = &[$(Point::$name),*];

            /// Those that a mount passes.
            pub fn of_mount() -> &'static [Point] {
                let end = Self::ALL.iter().position(|point| *point == Point::SuccessorServes);
                &Self::ALL[..end.unwrap_or_default()]
            }

            /// Those that only a mount in the place of one whose client died passes.
            pub fn of_takeover() -> &'static [Point] {
                let (begin, end) = (Self::of_mount().len(), Self::ALL.iter().position(|point| *point == Point::UpgradePlanned));
                &Self::ALL[begin..end.unwrap_or(begin)]
            }

            /// Those that only an upgrade passes.
            pub fn of_upgrade() -> &'static [Point] {
                &Self::ALL[Self::of_mount().len() + Self::of_takeover().len()..]
            }

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
    /// A new client serves, in place of one that died or is too old.
    SuccessorServes,
    /// Between any two steps with which it is put in the places of the old one.
    PlaceReplaced,
    Replaced,
    /// Who waited for the old client has been told.
    Answered,
    PredecessorRemoved,
    /// What would change is known, and the old client was asked what it shows.
    UpgradePlanned,
    /// The new client shows the same.
    Compared,
    /// What was written through the old client is with its server.
    WrittenBack,
    /// The old client is on record as one that only serves what is open.
    PredecessorDrains,
}

/// The point, and how often it is passed before: a keeper's process has no environment, so it reads a file of the run directory.
#[cfg(feature = "kill-points")]
static ASKED: std::sync::Mutex<Option<(String, u32)>> = std::sync::Mutex::new(None);

#[cfg(feature = "kill-points")]
pub fn read(run_dir: &std::path::Path) {
    let text = std::fs::read_to_string(run_dir.join("kill-at")).unwrap_or_default();
    let (name, times) = text.trim().split_once(' ').unwrap_or((text.trim(), "0"));
    if !name.is_empty() {
        *ASKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((name.to_owned(), times.parse().unwrap_or(0)));
    }
}

/// Dies here if the test asked for it.
#[cfg(feature = "kill-points")]
pub fn pass(point: Point) {
    let mut asked = ASKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let by_file = match &mut *asked {
        Some((name, 0)) => name == point.name(),
        Some((name, times)) if name == point.name() => {
            *times -= 1;
            false
        }
        _ => false,
    };
    if by_file || std::env::var("SHOREFAST_KILL_AT").is_ok_and(|name| name == point.name()) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "kill-points"))]
pub fn read(_: &std::path::Path) {}

#[cfg(not(feature = "kill-points"))]
pub fn pass(_: Point) {}
