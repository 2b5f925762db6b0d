use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    cpu_seconds: f64,
    /// Bytes.
    pub(super) memory: u64,
}

impl Cost {
    /// `None`: the process cannot be read.
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

    pub(super) fn cpu_ms_since(&self, before: &Cost) -> f64 {
        (self.cpu_seconds - before.cpu_seconds) * 1000.0
    }

    pub(super) fn share(before: Option<Self>, after: Option<Self>, seconds: f64) -> Option<f64> {
        Some(after?.share_since(&before?, seconds))
    }

    pub(super) fn bytes_each(before: Option<Self>, after: Option<Self>, count: usize) -> Option<f64> {
        Some(after?.memory.saturating_sub(before?.memory) as f64 / count as f64)
    }

    pub(super) fn share_since(&self, before: &Cost, seconds: f64) -> f64 {
        (self.cpu_seconds - before.cpu_seconds) / seconds * 100.0
    }
}
