//! The targets of a release, and what each kind of package calls their processor.

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    /// What cargo-zigbuild calls it; with glibc, the oldest version it may need.
    pub(crate) zig: &'static str,
    /// As `uname -m` and wheels say.
    pub(crate) machine: &'static str,
    pub(crate) debian: &'static str,
    pub(crate) node: &'static str,
    /// The C libraries that a wheel may meet.
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
