//! The Landlock rules of a [`Confinement`], applied to this process.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::confinement::{Confinement, LandlockSupport};

/// Before ABI version 3, a program could still truncate files that it cannot open.
const FILES: ABI = ABI::V3;
const TCP: ABI = ABI::V4;
/// Newer restrictions are applied where the kernel supports them.
const NEWEST: ABI = ABI::V6;

/// Reports what Landlock can restrict on this system. Restricts nothing.
pub fn landlock_support() -> LandlockSupport {
    let files = required_rules(true).and_then(Ruleset::create).is_ok();
    let tcp = required_rules(false).and_then(Ruleset::create).is_ok();
    let scopes = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::from_all(NEWEST))
        .and_then(Ruleset::create);
    LandlockSupport { files, tcp, scopes: scopes.is_ok() }
}

/// Returns the rules without which a command is not started.
fn required_rules(tcp_allowed: bool) -> Result<Ruleset, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(FILES))?;
    if tcp_allowed { Ok(rules) } else { rules.handle_access(AccessNet::from_all(TCP)) }
}

pub(super) fn restrict_self(confinement: &Confinement) -> io::Result<()> {
    let restricted = restrict(confinement).map_err(io::Error::other)?;
    if confinement.enforced && restricted == RulesetStatus::NotEnforced {
        return Err(io::Error::other("Landlock is not enforced"));
    }
    Ok(())
}

/// Restricts this process. Ignores paths that do not exist.
fn restrict(confinement: &Confinement) -> Result<RulesetStatus, RulesetError> {
    let rules = if confinement.enforced {
        required_rules(confinement.tcp)?
            .set_compatibility(CompatLevel::BestEffort)
            .scope(Scope::from_all(NEWEST))?
    } else {
        Ruleset::default()
    };
    let rules = rules.handle_access(AccessFs::from_all(NEWEST))?.create()?;
    let read = AccessFs::from_read(NEWEST);
    let rules = rules.add_rules(path_beneath_rules(&confinement.read, read))?;
    let all = AccessFs::from_all(NEWEST);
    let rules = rules.add_rules(path_beneath_rules(&confinement.write, all))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// Gives up root's extra privileges. With "no new privileges", which Landlock sets, no program
/// executed later can regain them.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // Only root can change the bounding set, and only old kernels have no ambient set.
    for capability in CapabilitySet::all().iter() {
        let _not_root = remove_capability_from_bounding_set(capability);
    }
    let _old_kernel = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}
