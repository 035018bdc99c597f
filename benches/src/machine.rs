//! What the figures were measured on.

use std::fs;

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
}

impl Machine {
    pub fn describe() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, {} cores, Linux {}", self.cpu, self.cores, self.kernel)
    }
}

/// Cloud CPUs often carry a bare brand name, so family and model are added: they tell the
/// microarchitecture.
fn cpu_model(cpuinfo: &str) -> String {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let unknown = "unknown";
    format!(
        "{} (family {}, model {})",
        field("model name").unwrap_or(unknown),
        field("cpu family").unwrap_or(unknown),
        field("model").unwrap_or(unknown)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_taken_from_cpuinfo() {
        let cpuinfo = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Some CPU\n";
        assert_eq!(cpu_model(cpuinfo), "Some CPU (family 25, model 17)");
        assert_eq!(cpu_model(""), "unknown (family unknown, model unknown)");
    }
}
