//! A command's payload as it may be shown.

use leasehold_common::body::{Body, ExecPayload, TaskKind};
use leasehold_common::task::{decode, encode};

/// What stands in the place of a secret.
const MASK: &str = "***";

/// The command of a body; none of a handler's, or of a payload that cannot be read. The values of its secret
/// variables are masked, also where its words, folder or input repeat them.
pub(super) fn command(body: &Body) -> Option<ExecPayload> {
    match body.kind {
        TaskKind::Exec => decode("payload", &body.payload).ok().map(masked),
        TaskKind::Handler => None,
    }
}

/// The payload that `task show --json` maps: MessagePack.
pub(super) fn payload(body: &Body) -> Vec<u8> {
    match command(body).filter(|command| !command.secret_env.is_empty()) {
        Some(command) => encode("payload", &command).unwrap_or_default(),
        None => body.payload.clone(),
    }
}

fn masked(mut command: ExecPayload) -> ExecPayload {
    let mut secrets: Vec<String> =
        command.secrets().filter(|secret| !secret.is_empty()).map(ToOwned::to_owned).collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mask = |text: &mut String| {
        for secret in secrets.iter().filter(|secret| text.contains(secret.as_str())).collect::<Vec<_>>() {
            *text = text.replace(secret.as_str(), MASK);
        }
    };
    command.argv.iter_mut().for_each(mask);
    command.env.values_mut().for_each(mask);
    command.cwd.iter_mut().for_each(mask);
    if let Some(Ok(mut text)) = command.stdin.clone().map(String::from_utf8) {
        mask(&mut text);
        command.stdin = Some(text.into_bytes());
    }
    command
}
