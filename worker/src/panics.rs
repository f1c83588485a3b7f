//! Panics of handlers: caught where they are polled, and told with the place they came from.
//!
//! The place is known to the panic hook alone. One hook is installed once per process, around the one that was
//! there; it notes a panic only while a handler is being polled on the thread that panics. What panics elsewhere, such as
//! a task that a handler spawned, is nobody's failure, but no secret of any run in hand shows in what is printed of it.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use crate::redact::{self, Secrets};

/// A handler being polled on this thread.
struct Watch {
    secrets: Arc<Secrets>,
    /// `<file>:<line>` of its newest panic.
    site: Option<String>,
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Installs the hook, once per process.
pub(crate) fn install() {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !noted_and_told(info) {
                before(info);
            }
        }));
    });
}

/// Notes the place. True when the hook that was there must not see it, for the text holds a secret, which it
/// would print: then it is logged here, masked.
fn noted_and_told(info: &PanicHookInfo<'_>) -> bool {
    WATCH.with(|watch| {
        // Never a second panic inside a panic: what is borrowed just now is left alone.
        let Ok(mut watch) = watch.try_borrow_mut() else { return false };
        let Some(watch) = watch.as_mut() else { return told_of_a_stranger(info) };
        let site = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        watch.site.clone_from(&site);
        let text = text_of(info.payload());
        let masked = watch.secrets.mask(&text);
        if masked == text {
            return false;
        }
        tracing::error!(site = site.unwrap_or_default(), "a handler panicked: {masked}");
        true
    })
}

/// The same for a panic outside of any handler.
fn told_of_a_stranger(info: &PanicHookInfo<'_>) -> bool {
    let text = text_of(info.payload());
    let Some(masked) = redact::mask_all_known(&text).filter(|masked| *masked != text) else { return false };
    let site = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(site, "a thread or task panicked: {masked}");
    true
}

/// A future whose panics, also when it is dropped, end in a message.
pub(crate) struct Caught<'a, T> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
    secrets: Arc<Secrets>,
}

impl<'a, T> Caught<'a, T> {
    /// Wraps a handler's or a cleanup's future. `secrets` never show in what its panics say.
    pub(crate) fn new(secrets: Arc<Secrets>, future: impl Future<Output = T> + Send + 'a) -> Self {
        install();
        Self { future: Some(Box::pin(future)), secrets }
    }

    /// Calls `action` with the hook watching this thread.
    fn watched<R>(&self, action: impl FnOnce() -> R) -> Result<R, String> {
        let watch = Watch { secrets: Arc::clone(&self.secrets), site: None };
        // A handler may poll another within itself.
        let outer = WATCH.with(|current| current.replace(Some(watch)));
        let outcome = catch_unwind(AssertUnwindSafe(action));
        let inner = WATCH.with(|current| current.replace(outer));
        outcome.map_err(|payload| {
            let text = self.secrets.mask(&text_of(&*payload));
            // A payload may panic once more when it is dropped.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            match inner.and_then(|watch| watch.site) {
                Some(site) => format!("panicked at {site}: {text}"),
                None => format!("panicked: {text}"),
            }
        })
    }
}

impl<T> Future for Caught<'_, T> {
    /// The message of a panic: `panicked at <file>:<line>: <text>`.
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        match self.watched(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => {
                self.future = Some(future);
                Poll::Pending
            }
            Ok(Poll::Ready(value)) => {
                self.drop_quietly(future);
                Poll::Ready(Ok(value))
            }
            Err(message) => {
                self.drop_quietly(future);
                Poll::Ready(Err(message))
            }
        }
    }
}

impl<T> Caught<'_, T> {
    /// What a destructor panics with is logged: the run has its outcome already.
    fn drop_quietly(&self, future: Pin<Box<dyn Future<Output = T> + Send + '_>>) {
        if let Err(message) = self.watched(|| drop(future)) {
            tracing::error!("a handler's future {message} while it was dropped");
        }
    }
}

impl<T> Drop for Caught<'_, T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.drop_quietly(future);
        }
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Caught, Secrets};
    use std::sync::Arc;

    async fn message(future: impl Future<Output = ()> + Send) -> String {
        Caught::new(Arc::default(), future).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_panic_is_told_with_its_place() {
        let line = line!() + 1;
        let told = message(async { panic!("number {}", 7) }).await;
        assert_eq!(told, format!("panicked at {}:{line}: number 7", file!()));
        let told = message(async { std::panic::resume_unwind(Box::new(7)) }).await;
        assert_eq!(told, "panicked: (no message)", "no hook saw it");
    }

    #[tokio::test]
    async fn a_panic_that_was_caught_inside_leaves_no_place() {
        let told = message(async {
            let _ = std::panic::catch_unwind(|| panic!("inside"));
            let inner = Caught::new(Arc::default(), async { panic!("nested") }).await;
            assert!(inner.unwrap_err().ends_with("nested"));
            tokio::task::yield_now().await;
            std::panic::resume_unwind(Box::new("outside"));
        })
        .await;
        assert_eq!(told, "panicked: outside");
    }

    #[tokio::test]
    async fn a_panic_of_a_destructor_changes_nothing() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        let bomb = Bomb;
        let pending = Caught::new(Arc::default(), async move {
            let _bomb = bomb;
            std::future::pending::<()>().await;
        });
        drop(pending);
    }

    #[tokio::test]
    async fn a_secret_in_the_text_is_masked() {
        let secrets = Arc::new(Secrets::default());
        secrets.add("secret", b"hunter22").unwrap();
        let told = Caught::new(secrets, async { panic!("it was hunter22!") }).await;
        let told: String = told.map(|()| String::new()).unwrap_err();
        assert!(told.ends_with(": it was ***!"), "{told}");
    }
}
