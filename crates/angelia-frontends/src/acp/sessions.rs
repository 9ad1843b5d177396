//! The editor's requests about sessions: create, load, resume, fork, list, configure, close,
//! delete.

use std::{path::Path, sync::Arc};

use agent_client_protocol_schema::v1::{
    CloseSessionRequest, CloseSessionResponse, ConfigOptionUpdate, CurrentModeUpdate,
    DeleteSessionRequest, DeleteSessionResponse, ForkSessionRequest, ForkSessionResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, ResumeSessionRequest, ResumeSessionResponse,
    SessionConfigOptionValue, SessionInfo, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use angelia_core::{
    engine::NewSession,
    model::{Mode, PermissionLevel, SessionId, SessionRecord},
    ports::{Page, Wanted},
};

use super::{
    connection::{Connection, Open},
    errors::Refusal,
    meter::Spent,
    options::{self, Chosen},
    servers::{Servers, servers},
    update::Updates,
};

/// Limits the sessions that `session/list` returns at once, and those that it reads to find them.
const PAGE: usize = 50;
const LOOKED_AT: usize = 1000;

impl Connection {
    pub(super) async fn new_session(
        &self,
        request: NewSessionRequest,
    ) -> Result<NewSessionResponse, Refusal> {
        no_more_directories(&request.additional_directories)?;
        is_directory(&request.cwd).await?;
        let more = servers(&request.mcp_servers)?;
        let wanted = Wanted {
            profile: self.settings.profile.clone(),
            cwd: Some(request.cwd),
            model: self.settings.model.clone(),
            ..Wanted::default()
        };
        let mut spec = self.profiles.spec(wanted).await?;
        spec.mcp_servers.extend(more);
        let new = NewSession { spec, title: None, name: None };
        let record = self.engine.create_session(new).await?;
        self.warm_up(&record);
        let chosen = self.open(&record, Spent::NOTHING);
        Ok(NewSessionResponse::new(record.id.to_string())
            .modes(chosen.modes())
            .config_options(chosen.options()))
    }

    /// Opens an earlier session and replays it.
    pub(super) async fn load_session(
        &self,
        request: LoadSessionRequest,
    ) -> Result<LoadSessionResponse, Refusal> {
        no_more_directories(&request.additional_directories)?;
        let given = servers(&request.mcp_servers)?;
        let record = self.found(&request.session_id.0, &request.cwd).await?;
        let record = self.equip(record, given).await?;
        let spent = self.replay(&record).await?;
        let chosen = self.open(&record, spent);
        Ok(LoadSessionResponse::new().modes(chosen.modes()).config_options(chosen.options()))
    }

    pub(super) async fn resume_session(
        &self,
        request: ResumeSessionRequest,
    ) -> Result<ResumeSessionResponse, Refusal> {
        no_more_directories(&request.additional_directories)?;
        let given = servers(&request.mcp_servers)?;
        let record = self.found(&request.session_id.0, &request.cwd).await?;
        let record = self.equip(record, given).await?;
        let chosen = self.open(&record, Spent::UNKNOWN);
        Ok(ResumeSessionResponse::new().modes(chosen.modes()).config_options(chosen.options()))
    }

    /// Creates a session that continues from the current state of another one.
    pub(super) async fn fork_session(
        &self,
        request: ForkSessionRequest,
    ) -> Result<ForkSessionResponse, Refusal> {
        no_more_directories(&request.additional_directories)?;
        let given = servers(&request.mcp_servers)?;
        let parent = self.found(&request.session_id.0, &request.cwd).await?;
        let record = self.engine.fork_session(parent.id).await?;
        let record = self.equip(record, given).await?;
        let chosen = self.open(&record, Spent::NOTHING);
        Ok(ForkSessionResponse::new(record.id.to_string())
            .modes(chosen.modes())
            .config_options(chosen.options()))
    }

    /// Finds a stored session. Fails if this editor runs a prompt in it, or if it belongs to
    /// another directory.
    async fn found(&self, id: &str, cwd: &Path) -> Result<SessionRecord, Refusal> {
        let session: SessionId = id.parse().map_err(|_| Refusal::no_session(id))?;
        let runs = (self.sessions().get(&session)).is_some_and(|open| open.running.is_some());
        if runs {
            let message = "a prompt runs in this session; wait for it, or cancel it";
            return Err(Refusal::invalid(message));
        }
        let record = self.engine.session(session).await?;
        if record.spec.cwd != cwd {
            return Err(Refusal::elsewhere(&record.spec.cwd));
        }
        Ok(record)
    }

    /// Adds the MCP servers that the editor sent with its request to the session.
    async fn equip(&self, record: SessionRecord, given: Servers) -> Result<SessionRecord, Refusal> {
        let known = |(name, settings): &(Arc<str>, angelia_core::model::RawJson)| {
            (record.spec.mcp_servers.get(name)).is_some_and(|has| has.get() == settings.get())
        };
        if given.iter().all(known) {
            return Ok(record);
        }
        let changed = (self.engine)
            .change_session(record.id, move |spec| spec.mcp_servers.extend(given))
            .await?;
        Ok(changed)
    }

    /// Starts an agent in the background, while the person types the first prompt.
    fn warm_up(&self, record: &SessionRecord) {
        let executors = self.engine.executors().iter();
        for executor in executors.filter(|one| one.name() == &*record.spec.executor) {
            executor.warm_up(&record.spec);
        }
    }

    /// Registers a session as open in this editor.
    fn open(&self, record: &SessionRecord, spent: Spent) -> Chosen {
        let spec = &record.spec;
        let executor = |name: &str| *name == *spec.executor;
        let models = (self.settings.models.iter()).find(|one| executor(&one.executor));
        let chosen = Chosen {
            level: spec.permissions.level,
            model: spec.model.clone(),
            models: models.map(|one| one.models.clone()).unwrap_or_default(),
        };
        let executors = self.engine.executors().iter();
        let open = Open {
            cwd: spec.cwd.clone(),
            images: executors
                .filter(|one| executor(one.name()))
                .any(|one| one.capabilities().images),
            chosen: chosen.clone(),
            titled: record.title.is_some(),
            spent,
            running: None,
        };
        self.sessions().insert(record.id, open);
        chosen
    }

    /// Lists sessions, newest first. Model-mode sessions are left out: without tools on this
    /// machine they are of no use in an editor.
    pub(super) async fn list_sessions(
        &self,
        request: ListSessionsRequest,
    ) -> Result<ListSessionsResponse, Refusal> {
        let mut before = match &request.cursor {
            None => None,
            Some(cursor) => {
                let at = cursor.parse::<SessionId>();
                let at = at.map_err(|_| Refusal::invalid("the cursor is invalid"))?;
                Some(at.as_uuid())
            }
        };
        let mut found = Vec::new();
        let mut looked_at = 0;
        let next = loop {
            let limit = PAGE;
            let page = self.engine.sessions(Page { limit, before }).await?;
            looked_at += page.len();
            let is_last = page.len() < limit;
            for record in page {
                let here = (request.cwd.as_ref()).is_none_or(|cwd| *cwd == record.spec.cwd);
                before = Some(record.id.as_uuid());
                if here && record.spec.mode == Mode::Agent {
                    found.push(info(&record));
                }
                if found.len() == PAGE {
                    break;
                }
            }
            if found.len() == PAGE || looked_at >= LOOKED_AT {
                break before.map(|id| id.to_string());
            }
            if is_last {
                break None;
            }
        };
        Ok(ListSessionsResponse::new(found).next_cursor(next))
    }

    pub(super) async fn delete_session(
        &self,
        request: DeleteSessionRequest,
    ) -> Result<DeleteSessionResponse, Refusal> {
        let id = &*request.session_id.0;
        let session: SessionId = id.parse().map_err(|_| Refusal::no_session(id))?;
        self.cancel(session);
        self.engine.delete_session(session).await?;
        self.sessions().remove(&session);
        Ok(DeleteSessionResponse::new())
    }

    /// Cancels the running prompt and ends the agent's process. The session stays.
    pub(super) async fn close_session(
        &self,
        request: CloseSessionRequest,
    ) -> Result<CloseSessionResponse, Refusal> {
        let session = self.opened(&request.session_id.0)?;
        self.cancel(session);
        self.engine.rest_session(session).await?;
        self.sessions().remove(&session);
        Ok(CloseSessionResponse::new())
    }

    pub(super) async fn set_mode(
        &self,
        request: SetSessionModeRequest,
    ) -> Result<SetSessionModeResponse, Refusal> {
        let session = self.opened(&request.session_id.0)?;
        let level = mode(&request.mode_id.0)?;
        let chosen = self.change_level(session, level).await?;
        let update = ConfigOptionUpdate::new(chosen.options());
        self.tell(session, &SessionUpdate::ConfigOptionUpdate(update)).await;
        Ok(SetSessionModeResponse::new())
    }

    pub(super) async fn set_option(
        &self,
        request: SetSessionConfigOptionRequest,
    ) -> Result<SetSessionConfigOptionResponse, Refusal> {
        let session = self.opened(&request.session_id.0)?;
        let SessionConfigOptionValue::ValueId { value } = &request.value else {
            return Err(Refusal::invalid("an option needs one of the listed values"));
        };
        let chosen = match &*request.config_id.0 {
            options::MODE => {
                let chosen = self.change_level(session, mode(&value.0)?).await?;
                let update = CurrentModeUpdate::new(chosen.level.as_str());
                self.tell(session, &SessionUpdate::CurrentModeUpdate(update)).await;
                chosen
            }
            options::MODEL => self.change_model(session, &value.0).await?,
            unknown => {
                let message = format!("there is no option `{unknown}`; use `mode` or `model`");
                return Err(Refusal::invalid(message));
            }
        };
        Ok(SetSessionConfigOptionResponse::new(chosen.options()))
    }

    async fn change_level(
        &self,
        session: SessionId,
        level: PermissionLevel,
    ) -> Result<Chosen, Refusal> {
        let change = self.engine.change_session(session, move |spec| {
            spec.permissions.level = level;
        });
        change.await?;
        self.rechoose(session, |chosen| chosen.level = level)
    }

    async fn change_model(&self, session: SessionId, value: &str) -> Result<Chosen, Refusal> {
        if value.is_empty() {
            return Err(Refusal::invalid("the model must not be empty"));
        }
        let model: Option<Arc<str>> = (value != options::DEFAULT_MODEL).then(|| value.into());
        let wanted = model.clone();
        let change = (self.engine).change_session(session, move |spec| spec.model = wanted);
        change.await?;
        self.rechoose(session, |chosen| chosen.model = model)
    }

    pub(super) fn rechoose(
        &self,
        session: SessionId,
        change: impl FnOnce(&mut Chosen),
    ) -> Result<Chosen, Refusal> {
        let mut sessions = self.sessions();
        let open = sessions.get_mut(&session);
        let open = open.ok_or_else(|| Refusal::no_session(&session.to_string()))?;
        change(&mut open.chosen);
        Ok(open.chosen.clone())
    }

    /// Parses the id of a session that the editor has open.
    pub(super) fn opened(&self, id: &str) -> Result<SessionId, Refusal> {
        let session: Option<SessionId> = id.parse().ok();
        session
            .filter(|session| self.sessions().contains_key(session))
            .ok_or_else(|| Refusal::no_session(id))
    }

    pub(super) async fn tell(&self, session: SessionId, update: &SessionUpdate) {
        let mut line = Vec::new();
        Updates::new(session, Path::new("/"), self.client().features).put(update, &mut line);
        self.say(line).await;
    }
}

fn mode(id: &str) -> Result<PermissionLevel, Refusal> {
    options::level(id).ok_or_else(|| {
        let message = format!("there is no mode `{id}`; use ask, edit or unattended");
        Refusal::invalid(message)
    })
}

fn info(record: &SessionRecord) -> SessionInfo {
    SessionInfo::new(record.id.to_string(), record.spec.cwd.clone())
        .title(record.title.as_deref().map(ToOwned::to_owned))
        .updated_at(record.updated_at.to_string())
}

/// Refuses additional directories. We do not advertise them, and an editor that sends them anyway
/// must not believe that they are used.
fn no_more_directories(more: &[std::path::PathBuf]) -> Result<(), Refusal> {
    if more.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid("a session has one directory here; leave `additionalDirectories` out"))
}

async fn is_directory(cwd: &Path) -> Result<(), Refusal> {
    if !cwd.is_absolute() {
        return Err(Refusal::invalid("`cwd` must be an absolute path"));
    }
    match tokio::fs::metadata(cwd).await {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Refusal::invalid(format!("{} is not a directory", cwd.display()))),
        Err(error) => Err(Refusal::invalid(format!("cannot work in {}: {error}", cwd.display()))),
    }
}
