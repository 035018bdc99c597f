//! Checks that the engine's image leaves vector and floating-point state alone.
//!
//! Those registers hold the guest's values at all times: entering the engine saves none of them,
//! so one stray `movups` corrupts a guest. The compiler is told not to use them; this looks at what
//! it made. Hand-written routines that save and restore such state say so by their names.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, command, output};

/// Functions whose names start so may touch any register.
const ALLOWED: &str = "retro_asm_";

/// Registers that the engine must not name, as AT&T syntax writes them.
const REGISTERS: [&str; 6] = ["%xmm", "%ymm", "%zmm", "%mm", "%st", "%k"];

/// Instructions that change such state without naming a register.
const INSTRUCTIONS: [&str; 5] = ["emms", "ldmxcsr", "vldmxcsr", "vzeroall", "vzeroupper"];

/// Instructions that no compiler makes of Rust code: who wrote one meant it, to save or restore the
/// guest's state or to emulate its own instruction.
const DELIBERATE: [&str; 5] = ["fxsave", "fxrstor", "fnsave", "fnstenv", "fldcw"];

/// Builds the image and checks it.
pub fn check() -> Result<()> {
    let image = image()?;
    let disassembly = output(command("objdump").args(["-d", "--no-show-raw-insn"]).arg(&image))?;
    let disassembly = String::from_utf8_lossy(&disassembly);
    let found = find(&disassembly);
    if !found.is_empty() {
        let shown: String = found.iter().take(20).map(|line| format!("  {line}\n")).collect();
        bail!(
            "the engine's image has {} instructions on vector or floating-point registers outside \
             functions named {ALLOWED}*:\n{shown}",
            found.len()
        );
    }
    let count = disassembly.lines().filter(|line| instruction(line).is_some()).count();
    if count == 0 {
        bail!("objdump found no instruction in {}", image.display());
    }
    eprintln!("no vector code in the engine's image ({count} instructions)");
    Ok(())
}

/// Where cargo put the image: the build script of `retro-engine-image` tells.
fn image() -> Result<PathBuf> {
    let messages = output(cargo().args([
        "build",
        "--quiet",
        "--package",
        "retro-engine-image",
        "--message-format=json-render-diagnostics",
    ]))?;
    for line in String::from_utf8_lossy(&messages).lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let mut variables = message["env"].as_array().into_iter().flatten();
        if let Some(variable) = variables.find(|variable| variable[0] == "RETRO_ENGINE_IMAGE") {
            return Ok(variable[1].as_str().context("the image's path is a string")?.into());
        }
    }
    bail!("the build of retro-engine-image names no image")
}

/// Every forbidden instruction of a disassembly, with the function it is in.
fn find(disassembly: &str) -> Vec<String> {
    let mut function = "?";
    let mut found = Vec::new();
    for line in disassembly.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            function = name.1;
        } else if let Some(text) = instruction(line)
            && !function.starts_with(ALLOWED)
            && is_forbidden(text)
        {
            found.push(format!("{function}: {text}"));
        }
    }
    found
}

/// The instruction of a line such as `  401000:\tmov    %rsp,%rdi`.
fn instruction(line: &str) -> Option<&str> {
    let (address, text) = line.split_once(":\t")?;
    address.trim().bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| text.trim())
}

fn is_forbidden(text: &str) -> bool {
    // What follows `#` or `<` is objdump's comment on an address.
    let text = text.split(['#', '<']).next().unwrap_or(text);
    let mnemonic = text.split_whitespace().next().unwrap_or(text);
    // Every other instruction whose name starts with f is one of the x87.
    let deliberate = DELIBERATE.iter().any(|name| mnemonic.starts_with(name));
    let x87 = mnemonic.starts_with('f') && mnemonic != "fs" && !deliberate;
    x87 || INSTRUCTIONS.contains(&mnemonic) || REGISTERS.iter().any(|name| names(text, name))
}

/// Whether `text` names `register` followed by a number, or the x87 stack.
fn names(text: &str, register: &str) -> bool {
    text.match_indices(register).any(|(index, _)| {
        let next = text.as_bytes().get(index + register.len());
        register == "%st" && !next.is_some_and(u8::is_ascii_alphanumeric)
            || next.is_some_and(u8::is_ascii_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_instructions_are_told_from_others() {
        for text in [
            "movups %xmm0,(%rdi)",
            "vpxor  %ymm1,%ymm1,%ymm1",
            "vmovdqu64 %zmm31,(%rax)",
            "kmovq  %k1,%rax",
            "movd   %mm3,%eax",
            "fxch   %st(1)",
            "fld1",
            "fildll (%rsp)",
            "ldmxcsr (%rsp)",
            "vzeroupper",
        ] {
            assert!(is_forbidden(text), "{text}");
        }
        for text in [
            "mov    %rsp,%rdi",
            "mov    %fs:0x0,%rax",
            "call   7000000012a0 <copy_xmm0_%xmm0>",
            "lea    0x10(%rip),%rax        # 7000 <%xmm1>",
            "str    %eax",
            "rep stos %al,%es:(%rdi)",
            "xgetbv",
            "fxsave64 (%rax)",
            "fnstenvs (%rax)",
        ] {
            assert!(!is_forbidden(text), "{text}");
        }
    }

    #[test]
    fn functions_with_the_prefix_are_left_out() {
        let disassembly = "\
0000700000001000 <retro_asm_save>:
    700000001000:\tmovups %xmm0,(%rdi)
0000700000001010 <translate>:
    700000001010:\tmov    %rax,%rbx
    700000001013:\tmovups %xmm1,(%rdi)
";
        assert_eq!(find(disassembly), ["translate: movups %xmm1,(%rdi)"]);
    }
}
