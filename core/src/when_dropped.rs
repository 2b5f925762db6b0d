/// Runs the function when it is dropped, unless it was disarmed before.
pub(crate) struct WhenDropped<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> WhenDropped<F> {
    pub(crate) fn new(work: F) -> Self {
        Self(Some(work))
    }

    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for WhenDropped<F> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}
