//! Resolves a profile and a call to session specifications. Reads the system prompt's file and
//! creates the working folder for model mode, but does not probe agents: `auto` yields one
//! specification per candidate, and the caller uses the first one whose executor is ready.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{NativeSettings, Permissions, SessionSpec, SystemPrompt, ToolSet},
    ports::ExecutorTarget,
};

use super::{
    agent_version::AgentVersion,
    environment::Environment,
    home::{Home, HomeError},
    limits,
    load::{Config, ProfileEntry},
    problem::nearest,
    types::{ExecutorName, FixedPath, Mode, Profile, Trust, expand_home},
};

/// The context of a request for an agent: the environment, the home and the directories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolveContext<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) home: &'a Home,
    /// An explicitly requested directory, which overrides the profile's.
    pub(crate) named_cwd: Option<&'a Path>,
    /// The caller's working directory, if it has one; only `run` does.
    pub(crate) caller_cwd: Option<&'a Path>,
    pub(crate) at_terminal: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("there is no profile `{name}`; {}known: {}", did_you_mean(.nearest.as_deref()), known.join(", "))]
    UnknownProfile { name: String, nearest: Option<String>, known: Vec<String> },
    #[error("there is no executor `{0}` here")]
    UnknownExecutor(Arc<str>),
    #[error("profile `{0}` names no directory to work in; name one, or set its `cwd`")]
    NoDirectory(Arc<str>),
    #[error("profile `{0}` is in model mode and works in an empty folder; leave the directory out")]
    DirectoryInModelMode(Arc<str>),
    #[error("cannot work in {}: {source}; name a directory that exists and that you can enter", path.display())]
    BadDirectory { path: PathBuf, source: io::Error },
    #[error(
        "`{key}` of profile `{profile}` starts with ~/ and HOME is not set; set it, or write the whole path"
    )]
    NoHome { profile: Arc<str>, key: &'static str },
    #[error("cannot read the system prompt {}: {source}; correct `system_prompt_path` of profile `{profile}`", path.display())]
    SystemPrompt { profile: Arc<str>, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Home(#[from] HomeError),
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("did you mean `{name}`? "))
}

impl Config {
    /// Returns the specifications that a profile may use, the preferred one first. A profile that
    /// names its executor has one; the last one of `auto` needs nothing installed.
    pub(crate) fn resolve(
        &self,
        profile: Option<&str>,
        call: &ResolveContext<'_>,
    ) -> Result<Vec<SessionSpec>, ResolveError> {
        let name = profile.unwrap_or_else(|| self.default_profile());
        let Some((name, entry)) = self.profiles.get_key_value(name) else {
            return Err(self.unknown_profile_error(name));
        };
        self.build_specs(name, entry, call)
    }

    /// Returns the specification for an executor in a mode, with the executor's own defaults.
    pub(crate) fn resolve_target(
        &self,
        target: &ExecutorTarget,
        call: &ResolveContext<'_>,
    ) -> Result<Vec<SessionSpec>, ResolveError> {
        let mode = Mode::from(target.mode);
        let Some(entry) = self.executor_entry(&target.executor, mode) else {
            return Err(ResolveError::UnknownExecutor(Arc::clone(&target.executor)));
        };
        let name = match mode {
            Mode::Model => Arc::clone(&target.executor),
            Mode::Agent => format!("{}-agent", target.executor).into(),
        };
        self.build_specs(&name, &entry, call)
    }

    fn build_specs(
        &self,
        name: &Arc<str>,
        entry: &ProfileEntry,
        call: &ResolveContext<'_>,
    ) -> Result<Vec<SessionSpec>, ResolveError> {
        let candidates = entry.candidates.iter();
        candidates
            .map(|(executor, profile)| self.build_spec(name, entry, *executor, profile, call))
            .collect()
    }

    fn unknown_profile_error(&self, name: &str) -> ResolveError {
        ResolveError::UnknownProfile {
            name: name.to_owned(),
            nearest: nearest(name, self.profile_names()).map(str::to_owned),
            known: self.profile_names().map(str::to_owned).collect(),
        }
    }

    fn build_spec(
        &self,
        name: &Arc<str>,
        entry: &ProfileEntry,
        executor: ExecutorName,
        profile: &Profile,
        call: &ResolveContext<'_>,
    ) -> Result<SessionSpec, ResolveError> {
        let subject = ProfileResolver { name, profile, context: call };
        let is_model = profile.mode == Mode::Model;
        let mut spec = SessionSpec::new(executor.as_str(), subject.cwd()?);
        spec.profile = Arc::clone(name);
        spec.mode = profile.mode.into();
        spec.model = profile.model.as_deref().map(Arc::from);
        spec.trust = subject.trust();
        spec.system = subject.system_prompt()?;
        spec.permissions = permissions(profile);
        spec.binary = subject.binary()?;
        let command = profile.command.as_ref();
        spec.command = command.map_or_else(Vec::new, |line| line.0.clone());
        spec.env = subject.env();
        spec.env_pass = profile.env_pass.iter().map(|name| name.0.clone()).collect();
        spec.billing = profile.billing.into();
        spec.stable_prompt = profile.exclude_dynamic_system_prompt_sections;
        spec.resume = entry.resume;
        spec.warm = profile.warm.0;
        spec.timeouts = limits::clocks(profile);
        spec.budgets = limits::budgets(profile);
        spec.native = subject.native_settings()?;
        if is_model {
            // An MCP server provides tools, and in model mode only the caller has tools.
            spec.tools = ToolSet::None;
        } else {
            spec.tools = profile.tools.0.clone();
            let servers = self.mcp_servers().iter().chain(&profile.mcp_servers);
            spec.mcp_servers = servers
                .filter_map(|(name, server)| Some((name.0.clone(), server.to_raw_json()?)))
                .collect();
        }
        Ok(spec)
    }
}

struct ProfileResolver<'a> {
    name: &'a Arc<str>,
    profile: &'a Profile,
    context: &'a ResolveContext<'a>,
}

impl ProfileResolver<'_> {
    fn cwd(&self) -> Result<PathBuf, ResolveError> {
        if self.profile.mode == Mode::Model {
            if self.context.named_cwd.is_some() {
                return Err(ResolveError::DirectoryInModelMode(self.name.clone()));
            }
            return Ok(self.context.home.profile_work_dir(self.name)?);
        }
        let own = self.profile.cwd.as_ref();
        let own = own.map(|path| self.expand("cwd", &path.0)).transpose()?;
        let path = self
            .context
            .named_cwd
            .map(Path::to_path_buf)
            .or(own)
            .or_else(|| self.context.caller_cwd.map(Path::to_path_buf))
            .ok_or_else(|| ResolveError::NoDirectory(self.name.clone()))?;
        // Use the canonical form, because agents name conversations after the directory. Reading
        // the directory proves that we may enter it.
        let usable = fs::read_dir(&path).and_then(|_| fs::canonicalize(&path));
        usable.map_err(|source| ResolveError::BadDirectory { path, source })
    }

    fn trust(&self) -> bool {
        if self.profile.mode == Mode::Model {
            return false;
        }
        match self.profile.trust {
            Trust::On => true,
            Trust::Off => false,
            Trust::Auto => self.context.at_terminal,
        }
    }

    fn system_prompt(&self) -> Result<SystemPrompt, ResolveError> {
        let replaces = self.profile.mode == Mode::Model;
        let Some(path) = &self.profile.system_prompt_path else {
            let nothing = SystemPrompt::Replace("".into());
            return Ok(if replaces { nothing } else { SystemPrompt::Default });
        };
        let path = self.expand("system_prompt_path", &path.0)?;
        let text: Arc<str> = match fs::read_to_string(&path) {
            Ok(text) => text.into(),
            Err(source) => {
                return Err(ResolveError::SystemPrompt {
                    profile: self.name.clone(),
                    path,
                    source,
                });
            }
        };
        Ok(match replaces {
            true => SystemPrompt::Replace(text),
            false if text.trim().is_empty() => SystemPrompt::Default,
            false => SystemPrompt::Append(text),
        })
    }

    fn binary(&self) -> Result<Option<PathBuf>, ResolveError> {
        let Some(binary) = &self.profile.binary else { return Ok(None) };
        match AgentVersion::parse(&binary.0) {
            Some(version) => Ok(Some(version.launcher(self.context.home))),
            None => self.expand("binary", &binary.0).map(Some),
        }
    }

    fn env(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let env = self.profile.env.iter();
        env.map(|(name, value)| (name.0.clone(), value.0.clone())).collect()
    }

    fn native_settings(&self) -> Result<NativeSettings, ResolveError> {
        let profile = self.profile;
        let folders = |key, paths: &[FixedPath]| {
            paths.iter().map(|path| self.expand(key, &path.0)).collect::<Result<Vec<_>, _>>()
        };
        Ok(NativeSettings {
            fallback: profile.fallback.iter().map(|model| Arc::clone(&model.0)).collect(),
            max_iterations: profile.max_iterations.0,
            max_output_tokens: profile.max_output_tokens.map(|tokens| tokens.0.into()),
            reasoning: profile.reasoning.map(Into::into),
            sandbox: profile.sandbox.into(),
            sandbox_read: folders("sandbox_read", &profile.sandbox_read)?,
            sandbox_write: folders("sandbox_write", &profile.sandbox_write)?,
            network: profile.network,
            memory: profile.memory.0,
            reviews: None,
            compaction: (&profile.compaction).into(),
        })
    }

    /// Expands the `~` in the path given for a key.
    fn expand(&self, key: &'static str, path: &str) -> Result<PathBuf, ResolveError> {
        expand_home(path, self.context.environment.home().as_deref())
            .ok_or_else(|| ResolveError::NoHome { profile: self.name.clone(), key })
    }
}

pub(super) fn permissions(profile: &Profile) -> Permissions {
    Permissions {
        level: profile.permissions.into(),
        allowed: patterns(&profile.allowed_tools),
        disallowed: patterns(&profile.disallowed_tools),
    }
}

fn patterns(list: &[super::types::ToolPatternSetting]) -> Vec<angelia_core::model::ToolPattern> {
    list.iter().map(|pattern| pattern.0.clone()).collect()
}
