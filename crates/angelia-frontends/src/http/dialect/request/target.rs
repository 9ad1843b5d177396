//! Resolves the model id of a request to the session to launch, and checks whether the caller may
//! use it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use angelia_core::{
    model::{Mode, SessionSpec},
    ports::{ExecutorTarget, ProfileRequest, ProfileSummary},
};

use super::ModelRequest;
use crate::http::{AccessKeys, AllowedModels, ApiState, ErrorKind, HttpError, Principal};

/// The owner's settings for the model APIs.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// Whether agents may act on this machine over `/v1`.
    pub agent_mode: bool,
    pub keys: AccessKeys,
    /// Maps the model id of a request to another id.
    pub aliases: BTreeMap<Arc<str>, Arc<str>>,
    /// The profile for titles, tags and the like.
    pub utility_profile: Option<Arc<str>>,
    /// How long a turn continues after its last streaming client has disconnected.
    pub disconnect_grace: Duration,
    /// How long the idempotency key of a request is remembered.
    pub idempotency_window: Duration,
    /// The model ids of each executor.
    pub families: Vec<ModelFamily>,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            agent_mode: false,
            keys: AccessKeys::default(),
            aliases: BTreeMap::new(),
            utility_profile: None,
            disconnect_grace: Duration::from_secs(10),
            idempotency_window: Duration::from_hours(24),
            families: Vec::new(),
        }
    }
}

/// The model ids of one executor: `EXECUTOR/MODEL`, `EXECUTOR-agent/MODEL`, and the vendor's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFamily {
    pub executor: Arc<str>,
    /// Prefixes of the vendor's own ids, which work without our prefix.
    pub bare_prefixes: Vec<Arc<str>>,
    /// Additional names for agent mode before the `/`.
    pub agent_aliases: Vec<Arc<str>>,
    /// The models shown in lists.
    pub models: Vec<Arc<str>>,
    /// The known providers, if a model is `PROVIDER/MODEL`. A key must allow the provider.
    pub providers: Option<Vec<Arc<str>>>,
}

impl ModelFamily {
    /// Returns the provider that a key must allow to use this model.
    fn provider_of(&self, model: &str) -> Option<Arc<str>> {
        let (provider, _) = model.split_once('/').unwrap_or((model, ""));
        self.providers.is_some().then(|| provider.into())
    }

    /// Returns the prefix of agent mode, which comes before the `/`.
    pub fn agent_prefix(&self) -> String {
        format!("{}-agent", self.executor)
    }
}

/// The result of resolving a model id.
#[derive(Clone, Debug)]
pub(super) struct ModelTarget {
    pub(super) profile: ProfileRequest,
    mode: Mode,
    /// The name that a key must allow: that of the profile, or the part before the `/`.
    grant_name: Arc<str>,
    /// The provider that a key must allow, if there is one.
    provider: Option<Arc<str>>,
}

/// Resolves the model id of a request for this caller.
pub(super) async fn resolve_granted(
    state: &ApiState,
    principal: &Principal,
    body: &ModelRequest,
) -> Result<ModelTarget, HttpError> {
    let settings = &*state.models.current();
    let id = match &settings.utility_profile {
        Some(profile) if body.is_utility => profile,
        _ => &body.model,
    };
    let target = resolve_model(id, settings, &state.profiles.list())
        .ok_or_else(|| unknown_model_error(&body.model))?;
    check_grant(&target, settings, principal)?;
    check_existence(&target, settings, principal)?;
    if target.mode == Mode::Agent {
        // An agent delegates work with `delegate`, which compares the privileges of both.
        principal.ensure_no_agent().await?;
    }
    Ok(target)
}

/// Resolves a model id, or returns `None` if it is unknown.
fn resolve_model(
    id: &str,
    settings: &ModelSettings,
    profiles: &[ProfileSummary],
) -> Option<ModelTarget> {
    let id = settings.aliases.get(id).map_or(id, |alias| alias);
    if let Some(profile) = profiles.iter().find(|one| *one.name == *id) {
        let family = settings.families.iter().find(|one| one.executor == profile.executor);
        let model = profile.model.as_deref().unwrap_or_default();
        return Some(ModelTarget {
            profile: ProfileRequest {
                profile: Some(Arc::clone(&profile.name)),
                ..ProfileRequest::default()
            },
            mode: profile.mode,
            grant_name: Arc::clone(&profile.name),
            provider: family.and_then(|family| family.provider_of(model)),
        });
    }
    if let Some((word, model)) = id.split_once('/') {
        return settings.families.iter().find_map(|family| resolve_prefixed(family, word, model));
    }
    let begins =
        |family: &&ModelFamily| family.bare_prefixes.iter().any(|start| id.starts_with(&**start));
    let family = settings.families.iter().find(begins)?;
    Some(model_target(family, Mode::Model, &family.executor, id))
}

fn resolve_prefixed(family: &ModelFamily, word: &str, model: &str) -> Option<ModelTarget> {
    if model.is_empty() {
        return None;
    }
    if *family.executor == *word {
        return Some(model_target(family, Mode::Model, word, model));
    }
    let agent = family.agent_prefix();
    let is_agent = agent == word || family.agent_aliases.iter().any(|one| **one == *word);
    is_agent.then(|| model_target(family, Mode::Agent, &agent, model))
}

fn model_target(family: &ModelFamily, mode: Mode, word: &str, model: &str) -> ModelTarget {
    ModelTarget {
        profile: ProfileRequest {
            target: Some(ExecutorTarget { executor: Arc::clone(&family.executor), mode }),
            // `default` leaves the choice of a model to the agent.
            model: (model != "default").then(|| model.into()),
            ..ProfileRequest::default()
        },
        mode,
        grant_name: word.into(),
        provider: family.provider_of(model),
    }
}

/// Checks that the caller may use the target.
fn check_grant(
    target: &ModelTarget,
    settings: &ModelSettings,
    principal: &Principal,
) -> Result<(), HttpError> {
    let refused = |message: String, hint: &str| {
        Err(HttpError::new(ErrorKind::NotGranted, message).with_hint(hint))
    };
    if !principal.grant.profiles.includes(&target.grant_name) {
        return refused(
            format!("this key does not allow `{}`", target.grant_name),
            "the owner can add it to the key's `profiles` in http.keys",
        );
    }
    if let Some(provider) = &target.provider {
        check_provider(provider, target.profile.profile.is_some(), principal)?;
    }
    if target.mode == Mode::Model {
        return Ok(());
    }
    if !settings.agent_mode {
        return refused(
            format!("`{}` is an agent that acts on this machine", target.grant_name),
            "set `http.agent_mode: true` in config.yaml to allow that over /v1",
        );
    }
    if !principal.grant.agent_mode {
        return refused(
            format!(
                "this key does not allow agents that act on this machine, and `{}` is one",
                target.grant_name
            ),
            "the owner can set `agent_mode: true` for the key in http.keys",
        );
    }
    Ok(())
}

/// Checks that the provider of `EXECUTOR/PROVIDER/MODEL` exists, and that a model is named.
/// Profiles were checked when the configuration was read.
fn check_existence(
    target: &ModelTarget,
    settings: &ModelSettings,
    principal: &Principal,
) -> Result<(), HttpError> {
    let Some(wanted) = &target.profile.target else { return Ok(()) };
    let family = settings.families.iter().find(|family| family.executor == wanted.executor);
    let Some((known, provider)) =
        family.and_then(|family| family.providers.as_ref()).zip(target.provider.as_ref())
    else {
        return Ok(());
    };
    let model = target.profile.model.as_deref().and_then(|model| model.split_once('/'));
    let message = if !known.contains(provider) {
        format!("there is no provider `{provider}`")
    } else if model.is_none_or(|(_, model)| model.is_empty()) {
        format!("no model of the provider `{provider}` is named")
    } else {
        return Ok(());
    };
    let may_use = |name: &&Arc<str>| principal.grant.providers.includes(name);
    let names: Vec<&str> = known.iter().filter(may_use).map(|name| &**name).collect();
    let hint = format!(
        "write {}/PROVIDER/MODEL, with one of these providers: {}",
        target.grant_name,
        names.join(", ")
    );
    Err(HttpError::new(ErrorKind::UnknownModel, message).with_hint(hint))
}

/// Returns the mode of a model id, if it is known and the caller may use it.
pub(in crate::http) fn granted_mode(
    state: &ApiState,
    principal: &Principal,
    id: &str,
) -> Option<Mode> {
    let settings = state.models.current();
    let target = resolve_model(id, &settings, &state.profiles.list())?;
    check_grant(&target, &settings, principal).ok()?;
    check_existence(&target, &settings, principal).ok()?;
    Some(target.mode)
}

/// Checks that the caller may use a specification that was chosen only now: a profile with
/// `executor: auto` may have settled on a provider.
pub(super) fn check_resolved(
    spec: &SessionSpec,
    settings: &ModelSettings,
    principal: &Principal,
) -> Result<(), HttpError> {
    let family = settings.families.iter().find(|family| family.executor == spec.executor);
    let provider = family.and_then(|family| family.provider_of(spec.model.as_deref()?));
    match provider {
        Some(provider) => check_provider(&provider, true, principal),
        None => Ok(()),
    }
}

/// Checks that the key allows the provider. A key that names a profile may also use the provider
/// that the profile names.
fn check_provider(
    provider: &str,
    is_profile: bool,
    principal: &Principal,
) -> Result<(), HttpError> {
    let is_named = is_profile && matches!(principal.grant.profiles, AllowedModels::Only(_));
    if is_named || principal.grant.providers.includes(provider) {
        return Ok(());
    }
    let message = format!("this key does not allow the provider `{provider}`, which is paid for");
    Err(HttpError::new(ErrorKind::NotGranted, message)
        .with_hint("the owner can add it to the key's `providers` in http.keys"))
}

pub(in crate::http) fn unknown_model_error(id: &str) -> HttpError {
    HttpError::new(ErrorKind::UnknownModel, format!("there is no model `{id}`"))
        .with_hint("GET /v1/models lists the models")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::keys::Grant;

    fn settings() -> ModelSettings {
        let family = |name: &str, bare: &str| ModelFamily {
            executor: name.into(),
            bare_prefixes: vec![bare.into()],
            agent_aliases: vec![format!("{name}-cli").into()],
            models: vec!["large".into()],
            providers: (name == "gamma").then(|| vec!["shop".into(), "stall".into()]),
        };
        ModelSettings {
            families: vec![family("alpha", "alpha-"), family("beta", "b-"), family("gamma", "g-")],
            aliases: BTreeMap::from([("nick".into(), "beta/small".into())]),
            ..ModelSettings::default()
        }
    }

    fn profiles() -> Vec<ProfileSummary> {
        let profile = |name: &str, executor: &str, mode, model: Option<&str>| ProfileSummary {
            name: name.into(),
            executor: executor.into(),
            mode,
            model: model.map(Into::into),
        };
        vec![
            profile("work", "alpha", Mode::Agent, None),
            profile("paid", "gamma", Mode::Model, Some("shop/large")),
        ]
    }

    fn line(id: &str) -> String {
        let Some(target) = resolve_model(id, &settings(), &profiles()) else {
            return "nothing".to_owned();
        };
        let profile = target.profile;
        let name = match (&profile.profile, &profile.target) {
            (Some(name), None) => format!("profile {name}"),
            (None, Some(target)) => target.executor.to_string(),
            other => format!("{other:?}"),
        };
        let model = profile.model.as_deref().unwrap_or("-");
        format!("{name} {} {model} ({})", target.mode.as_str(), target.grant_name)
    }

    #[test]
    fn ids_mean_targets() {
        assert_eq!(line("alpha/large"), "alpha model large (alpha)");
        assert_eq!(line("alpha/a/b"), "alpha model a/b (alpha)");
        assert_eq!(line("alpha/default"), "alpha model - (alpha)");
        assert_eq!(line("alpha-agent/large"), "alpha agent large (alpha-agent)");
        assert_eq!(line("alpha-cli/large"), "alpha agent large (alpha-agent)");
        assert_eq!(line("alpha-large-4"), "alpha model alpha-large-4 (alpha)");
        assert_eq!(line("b-9"), "beta model b-9 (beta)");
        assert_eq!(line("nick"), "beta model small (beta)");
        assert_eq!(line("work"), "profile work agent - (work)");
        for nothing in ["", "/", "alpha", "alpha/", "delta/x", "c-1", "work/x"] {
            assert_eq!(line(nothing), "nothing", "{nothing}");
        }
    }

    #[test]
    fn agents_are_refused_until_the_owner_and_the_key_allow_them() {
        let mut settings = settings();
        let agent = resolve_model("work", &settings, &profiles()).unwrap();
        let model = resolve_model("alpha/large", &settings, &profiles()).unwrap();
        let key = |profiles, agent_mode| {
            let grant = Grant {
                profiles,
                providers: AllowedModels::Only(Vec::new()),
                agent_mode,
                max_cost_usd_per_day: None,
            };
            Principal { grant: Arc::new(grant), is_owner: false, ..Principal::owner() }
        };
        let all = || AllowedModels::All;
        let says = |target, settings: &_, principal: &_| {
            check_grant(target, settings, principal).map_err(|error| error.to_string())
        };
        assert_eq!(says(&model, &settings, &key(all(), false)), Ok(()));
        let refused = says(&agent, &settings, &Principal::owner()).unwrap_err();
        assert!(refused.contains("http.agent_mode: true"), "{refused}");
        settings.agent_mode = true;
        assert_eq!(says(&agent, &settings, &Principal::owner()), Ok(()));
        assert_eq!(says(&agent, &settings, &key(all(), true)), Ok(()));
        let refused = says(&agent, &settings, &key(all(), false)).unwrap_err();
        assert!(refused.contains("http.keys"), "{refused}");
        let narrow = key(AllowedModels::Only(vec!["work".into()]), true);
        assert_eq!(says(&agent, &settings, &narrow), Ok(()));
        let refused = says(&model, &settings, &narrow).unwrap_err();
        assert!(refused.contains("`alpha`"), "{refused}");
    }

    #[test]
    fn a_key_reaches_a_paid_model_only_by_its_provider_or_by_a_profile_that_it_names() {
        let settings = settings();
        let says = |id: &str, profiles: &AllowedModels, providers: &[&str]| {
            let target = resolve_model(id, &settings, &self::profiles()).unwrap();
            let providers = providers.iter().map(|name| Arc::from(*name)).collect();
            let grant = Grant {
                profiles: profiles.clone(),
                providers: AllowedModels::Only(providers),
                agent_mode: false,
                max_cost_usd_per_day: None,
            };
            let key = Principal { grant: Arc::new(grant), is_owner: false, ..Principal::owner() };
            check_grant(&target, &settings, &key).map_err(|error| error.to_string())
        };
        let named = AllowedModels::Only(vec!["paid".into(), "gamma".into()]);
        for id in ["gamma/shop/large", "gamma/shop", "paid"] {
            let refused = says(id, &AllowedModels::All, &["other"]).unwrap_err();
            assert!(refused.contains("`shop`") && refused.contains("`providers`"), "{refused}");
            assert_eq!(says(id, &AllowedModels::All, &["shop"]), Ok(()), "{id}");
        }
        assert_eq!(says("paid", &named, &[]), Ok(()));
        assert!(says("gamma/shop/large", &named, &[]).is_err());
        assert_eq!(says("alpha/large", &AllowedModels::All, &[]), Ok(()));
        let target = resolve_model("gamma/shop/large", &settings, &self::profiles()).unwrap();
        assert!(check_grant(&target, &settings, &Principal::owner()).is_ok());
    }

    #[test]
    fn a_provider_that_does_not_exist_is_an_unknown_model() {
        let settings = settings();
        let says = |id: &str, principal: &Principal| {
            let target = resolve_model(id, &settings, &self::profiles()).unwrap();
            check_existence(&target, &settings, principal)
                .map_err(|error| (error.kind, error.to_string()))
        };
        let owner = Principal::owner();
        for id in ["gamma/shop/large", "gamma/shop/a/b", "gamma-agent/stall/x", "paid", "work"] {
            assert_eq!(says(id, &owner), Ok(()), "{id}");
        }
        for (id, words) in [
            ("gamma/nope/large", "there is no provider `nope`"),
            ("gamma/nope", "there is no provider `nope`"),
            ("gamma/default", "there is no provider `default`"),
            ("gamma/shop", "no model of the provider `shop` is named"),
            ("gamma/shop/", "no model of the provider `shop` is named"),
        ] {
            let (kind, said) = says(id, &owner).unwrap_err();
            assert_eq!(kind, ErrorKind::UnknownModel, "{id}");
            assert!(said.contains(words) && said.contains("shop, stall"), "{id}: {said}");
        }
        let grant = Grant {
            profiles: AllowedModels::All,
            providers: AllowedModels::Only(vec!["stall".into(), "nope".into()]),
            agent_mode: false,
            max_cost_usd_per_day: None,
        };
        let key = Principal { grant: Arc::new(grant), is_owner: false, ..Principal::owner() };
        let (_, said) = says("gamma/nope/x", &key).unwrap_err();
        assert!(said.ends_with("providers: stall"), "a key is told what it may use: {said}");
    }

    #[test]
    fn a_profile_that_ends_at_a_provider_needs_it_too() {
        let settings = settings();
        let mut spec = SessionSpec::new("gamma", "/");
        spec.model = Some("shop/large".into());
        let may_use = |spec: &SessionSpec, profiles: AllowedModels, providers: &[&str]| {
            let providers = providers.iter().map(|name| Arc::from(*name)).collect();
            let grant = Grant {
                profiles,
                providers: AllowedModels::Only(providers),
                agent_mode: false,
                max_cost_usd_per_day: None,
            };
            let key = Principal { grant: Arc::new(grant), is_owner: false, ..Principal::owner() };
            check_resolved(spec, &settings, &key).is_ok()
        };
        assert!(!may_use(&spec, AllowedModels::All, &[]));
        assert!(may_use(&spec, AllowedModels::All, &["shop"]));
        assert!(may_use(&spec, AllowedModels::Only(vec!["mine".into()]), &[]));
        assert!(may_use(&SessionSpec::new("alpha", "/"), AllowedModels::All, &[]));
        assert!(check_resolved(&spec, &settings, &Principal::owner()).is_ok());
    }
}
