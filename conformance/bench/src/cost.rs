//! The costs of a process: processor time and memory.

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// The costs of a process up to now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    cpu_seconds: f64,
    /// Resident memory in bytes.
    pub(super) memory: u64,
}

impl Cost {
    /// Reads the costs of a process. `None` if it does not exist or cannot be read.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let pid = Pid::from_u32(pid);
        let mut system = System::new();
        let kind = ProcessRefreshKind::nothing().with_cpu().with_memory().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, kind);
        let process = system.process(pid)?;
        let cpu_seconds = process.accumulated_cpu_time() as f64 / 1000.0;
        Some(Self { cpu_seconds, memory: process.memory() })
    }

    pub(super) fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Returns the processor time since `before`, in milliseconds.
    pub(super) fn cpu_ms_since(&self, before: &Cost) -> f64 {
        (self.cpu_seconds - before.cpu_seconds) * 1000.0
    }

    /// Returns the share of one core between two reads, in percent.
    pub(super) fn share(before: Option<Self>, after: Option<Self>, seconds: f64) -> Option<f64> {
        Some(after?.share_since(&before?, seconds))
    }

    /// Returns the growth of the memory between two reads, divided by `count`.
    pub(super) fn bytes_each(before: Option<Self>, after: Option<Self>, count: usize) -> Option<f64> {
        Some(after?.memory.saturating_sub(before?.memory) as f64 / count as f64)
    }

    /// Returns the share of one core since `before`, in percent.
    pub(super) fn share_since(&self, before: &Cost, seconds: f64) -> f64 {
        (self.cpu_seconds - before.cpu_seconds) / seconds * 100.0
    }
}
