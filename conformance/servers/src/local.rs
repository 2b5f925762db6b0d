use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;

use crate::binary::{Binary, on_free_ports};
use crate::options::Options;
use crate::process::{Process, until_stopped};
use crate::{Kind, ServerError};

#[derive(Debug)]
pub(super) struct Local {
    process: Mutex<Option<Process>>,
    pub(super) binary: Binary,
}

impl Local {
    pub(super) async fn start(kind: Kind, options: &Options) -> Result<Self, ServerError> {
        on_free_ports(|| async { Self::run(Binary::prepare(kind, options)?).await }).await
    }

    pub(super) async fn run(binary: Binary) -> Result<Self, ServerError> {
        let process = binary.run().await?;
        Ok(Local { process: Mutex::new(Some(process)), binary })
    }

    /// `None`: it has ended.
    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.as_mut().is_some_and(Process::has_ended) {
            *process = None;
        }
        process
    }

    fn take(&self) -> Result<Process, ServerError> {
        self.process().take().ok_or_else(|| self.stopped())
    }

    fn stopped(&self) -> ServerError {
        ServerError::Stopped { kind: self.binary.kind }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    pub(super) fn log_tail(&self) -> String {
        self.binary.log_tail()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        self.process().as_ref().ok_or_else(|| self.stopped())?.signal(signal)
    }

    pub(super) async fn pause(&self) -> Result<(), ServerError> {
        self.signal(Signal::STOP)?;
        until_stopped(self.pid().ok_or_else(|| self.stopped())?).await
    }

    pub(super) async fn stop(&self) -> Result<(), ServerError> {
        self.take()?.stop().await
    }

    pub(super) async fn kill(&self) -> Result<(), ServerError> {
        self.take()?.kill().await
    }

    pub(super) async fn launch(&self) -> Result<(), ServerError> {
        if self.pid().is_none() {
            let process = self.binary.run().await?;
            *self.process() = Some(process);
        }
        Ok(())
    }
}
