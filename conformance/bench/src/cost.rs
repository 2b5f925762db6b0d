//! What a process costs: its time on the processor and its memory.

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// What a process has cost until now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    cpu_seconds: f64,
    /// Resident, in bytes.
    pub(super) memory: u64,
}

impl Cost {
    /// `None` when there is no such process, or none that we may look at.
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

    /// Time on the processor since `before`, in milliseconds.
    pub(super) fn cpu_ms_since(&self, before: &Cost) -> f64 {
        (self.cpu_seconds - before.cpu_seconds) * 1000.0
    }

    /// The share of one core between two looks, in percent.
    pub(super) fn share(before: Option<Self>, after: Option<Self>, seconds: f64) -> Option<f64> {
        Some(after?.share_since(&before?, seconds))
    }

    /// The memory of each of so many, for which a process has grown between two looks.
    pub(super) fn bytes_each(before: Option<Self>, after: Option<Self>, count: usize) -> Option<f64> {
        Some(after?.memory.saturating_sub(before?.memory) as f64 / count as f64)
    }

    /// The share of one core since `before`, in percent.
    pub(super) fn share_since(&self, before: &Cost, seconds: f64) -> f64 {
        (self.cpu_seconds - before.cpu_seconds) / seconds * 100.0
    }
}
