use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The operating system.
    pub system: String,
    /// The processor.
    pub processor: String,
    /// The usable cores.
    pub cores: usize,
    /// The memory in bytes.
    pub memory: u64,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
        let kinds = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(kinds);
        let processor = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).unwrap_or_default();
        Self {
            system: System::long_os_version().unwrap_or_else(|| std::env::consts::OS.to_owned()),
            processor: if processor.is_empty() { std::env::consts::ARCH.to_owned() } else { processor },
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: system.total_memory(),
        }
    }
}
