//! A device of the kernel, which answers when it likes.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::evidence::provider::ProviderError;

/// Asked by one thread at a time. Nothing ends a thread that the device keeps waiting, and whoever asked may have given up
/// long ago: another one beside it would be kept waiting as well.
#[derive(Debug, Clone)]
pub(super) struct Device(Arc<Semaphore>);

impl Default for Device {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Device {
    /// What `question` comes to, once those before it have come to an end.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        // Never closed.
        let turn = Arc::clone(&self.0).acquire_owned().await;
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            question()
        });
        asked.await.unwrap_or_else(|failed| Err(ProviderError::Refused(Box::new(failed))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_device_that_is_silent_keeps_one_thread() {
        let device = Device::default();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (answer, answered) = mpsc::channel::<()>();
        let mut first = Box::pin(device.ask(move || {
            begun.send(()).unwrap();
            answered.recv().unwrap();
            Ok(())
        }));
        tokio::select! {
            _ = &mut first => panic!("the device answered"),
            begun = begins => begun.unwrap(),
        }
        drop(first);
        let mut second = Box::pin(device.ask(|| Ok("an answer")));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(device.0.available_permits(), 0, "whoever asked is gone, and the thread is not");
        answer.send(()).unwrap();
        assert_eq!(second.await.unwrap(), "an answer");
    }
}
