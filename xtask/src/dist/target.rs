//! The targets of a release, and the names of their processors in each kind of package.

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    /// The target's name for cargo-zigbuild; with glibc, it includes the oldest supported version.
    pub(crate) zig: &'static str,
    /// The processor's name in `uname -m` and in wheels.
    pub(crate) machine: &'static str,
    pub(crate) debian: &'static str,
    pub(crate) node: &'static str,
    /// The platform tags of the C libraries on which the wheel runs.
    pub(crate) wheel_platforms: &'static [&'static str],
}

const ANY_LIBC: &[&str] = &["manylinux_2_17", "musllinux_1_1"];
const GLIBC: &[&str] = &["manylinux_2_17"];

/// Static programs first; those for glibc are the fallback.
pub(crate) const TARGETS: [Target; 4] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        zig: "x86_64-unknown-linux-musl",
        machine: "x86_64",
        debian: "amd64",
        node: "x64",
        wheel_platforms: ANY_LIBC,
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        zig: "aarch64-unknown-linux-musl",
        machine: "aarch64",
        debian: "arm64",
        node: "arm64",
        wheel_platforms: ANY_LIBC,
    },
    Target {
        triple: "x86_64-unknown-linux-gnu",
        zig: "x86_64-unknown-linux-gnu.2.17",
        machine: "x86_64",
        debian: "amd64",
        node: "x64",
        wheel_platforms: GLIBC,
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        zig: "aarch64-unknown-linux-gnu.2.17",
        machine: "aarch64",
        debian: "arm64",
        node: "arm64",
        wheel_platforms: GLIBC,
    },
];

pub(crate) const DEFAULT_TARGETS: [&Target; 2] = [&TARGETS[0], &TARGETS[1]];
