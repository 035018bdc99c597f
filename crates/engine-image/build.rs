//! Builds `retro-engine` as a freestanding executable with its own profile and target directory.
//!
//! A build script rather than an artifact dependency, because the engine needs another panic
//! strategy, other target features and other link arguments than anything else in the workspace.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The engine never touches vector registers: they hold the guest's state at all times, so that
/// entering the engine saves none of it. `cargo xtask ci` checks the image for stray `xmm` uses.
const NO_VECTOR_CODE: &str = "-Ctarget-feature=-mmx,-sse,-sse2,+soft-float";

/// Variables of the outer build that must not shape the inner one.
const INHERITED: [&str; 8] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_MAKEFLAGS",
    "MAKEFLAGS",
    "CLIPPY_ARGS",
];

fn main() {
    let manifest_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let engine = manifest_dir.join("../engine");
    for watched in ["../engine", "../abi"] {
        for part in ["src", "Cargo.toml", "build.rs"] {
            let path = manifest_dir.join(watched).join(part);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    println!("cargo::rerun-if-changed=build.rs");

    let target_dir = out_dir.join("engine-target");
    let base = format!("-Clink-arg=-Wl,--image-base={:#x}", retro_abi::layout::ENGINE_BASE);
    let flags = [
        NO_VECTOR_CODE,
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static",
        "-Clink-arg=-no-pie",
        "-Clink-arg=-Wl,--build-id=none",
        "-Clink-arg=-Wl,-z,noexecstack",
        "-Clink-arg=-fuse-ld=lld",
        &base,
        // The feature set above is deliberate; rustc warns about it on every crate.
        "-Awarnings",
    ];
    let mut cargo = Command::new(env::var_os("CARGO").expect("set by cargo"));
    cargo
        .current_dir(&engine)
        .args(["build", "--release", "--bin", "retro-engine", "--features", "image"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .arg("--target-dir")
        .arg(&target_dir);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PROFILE_") {
            cargo.env_remove(name);
        }
    }
    for name in INHERITED {
        cargo.env_remove(name);
    }
    cargo
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "building the engine image failed");

    let image = target_dir.join("x86_64-unknown-linux-gnu/release/retro-engine");
    println!("cargo::rustc-env=RETRO_ENGINE_IMAGE={}", image.display());
}
