//! The machines that there are binaries for, and their names in each world.

/// A machine that a binary runs on. Its operating system is Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DistMachine {
    X86_64,
    Aarch64,
}

impl DistMachine {
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The machine of this process, if there are binaries for it.
    pub(crate) fn of_host() -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.name() == std::env::consts::ARCH)
    }

    /// The name that Rust and the kernel use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Rust's target. The C library is musl, linked statically, so the binary runs on every Linux.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Returns the target by zig's name.
    pub(crate) fn zig_target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-linux-musl",
            Self::Aarch64 => "aarch64-linux-musl",
        }
    }

    /// The name that Debian and container images use.
    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The name of the archive for `install.sh`, without its ending.
    pub(crate) fn archive_name(self) -> String {
        format!("rondo-{}-linux", self.name())
    }
}
