//! Decides which work a session may delegate: to the profiles in its `delegate_to`, and never to a
//! profile that may do more than the session itself.

use angelia_core::model::SessionSpec;
use angelia_frontends::mcp::{ToolCallError, lineage};

use super::{DelegatingSession, Privileges};
use crate::{assemble::App, config::ResolveContext};

/// Checks that a session may delegate work to a profile at all. The configuration was checked when
/// it was loaded, but the session may have started under a different one, in another folder.
pub(crate) fn check_profile(
    app: &App,
    caller: &DelegatingSession,
    target: &str,
) -> Result<(), ToolCallError> {
    let spec = &caller.session.spec;
    let config = app.live_config.current();
    let allowed = config.delegates(&spec.profile, &spec.executor);
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    check_listed(target, &spec.profile, &allowed)?;
    if caller.depth >= lineage::MAX_DELEGATION_DEPTH {
        let what =
            format!("this work has been handed on {} times, which is the limit", caller.depth);
        return Err(ToolCallError::new(what).with_hint("do it yourself"));
    }
    let call = ResolveContext {
        environment: &app.environment,
        home: &app.home,
        named_cwd: None,
        caller_cwd: Some(&spec.cwd),
        at_terminal: false,
    };
    for name in config.with_fallbacks(target) {
        let specs = config.resolve(Some(name), &call);
        for spec in specs.map_err(|error| ToolCallError::new(error.to_string()))? {
            check_excess(caller, target, &spec)?;
        }
    }
    Ok(())
}

/// Checks that a session may delegate work to one with this specification, and to its fallbacks.
pub(crate) fn check_spec(
    caller: &DelegatingSession,
    spec: &SessionSpec,
) -> Result<(), ToolCallError> {
    let mut next = Some(spec);
    while let Some(one) = next {
        check_excess(caller, &spec.profile, one)?;
        next = one.fallback.as_deref();
    }
    Ok(())
}

pub(crate) fn check_listed(
    wanted: &str,
    profile: &str,
    allowed: &[&str],
) -> Result<(), ToolCallError> {
    if allowed.contains(&wanted) {
        return Ok(());
    }
    let what = format!("profile `{profile}` may not hand work to `{wanted}`");
    Err(ToolCallError::new(what).with_hint(match allowed {
        [] => "it may hand work to nobody (delegate_to is empty)".to_owned(),
        some => format!("it may use: {}", some.join(", ")),
    }))
}

fn check_excess(
    caller: &DelegatingSession,
    target: &str,
    spec: &SessionSpec,
) -> Result<(), ToolCallError> {
    let own = Privileges::of(&caller.session.spec);
    match Privileges::of(spec).excess_over(&own) {
        None => Ok(()),
        Some(more) => {
            let what = format!("`{target}` may do more than this session: {more}");
            Err(ToolCallError::new(what).with_hint("do it yourself, or choose another profile"))
        }
    }
}
