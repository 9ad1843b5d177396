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
    model::{Mode, PermissionLevel, SessionId, SessionRecord, SessionSource},
    ports::{Page, ProfileRequest},
};

use super::{
    connection::{EditorConnection, OpenSession},
    errors::AcpError,
    mcp_servers::{McpServers, convert_servers},
    options::{self, SessionSettings},
    update::UpdateEncoder,
    usage_update::SessionCost,
};

/// The limits on how many sessions `session/list` returns at once, and how many it reads to find
/// them.
const MAX_LISTED_SESSIONS: usize = 50;
const MAX_SCANNED_SESSIONS: usize = 1000;

impl EditorConnection {
    pub(super) async fn new_session(
        &self,
        request: NewSessionRequest,
    ) -> Result<NewSessionResponse, AcpError> {
        reject_additional_directories(&request.additional_directories)?;
        check_directory(&request.cwd).await?;
        let more = convert_servers(&request.mcp_servers)?;
        let wanted = ProfileRequest {
            profile: self.settings.profile.clone(),
            cwd: Some(request.cwd),
            model: self.settings.model.clone(),
            ..ProfileRequest::default()
        };
        let mut spec = self.profiles.resolve(wanted).await?;
        spec.mcp_servers.extend(more);
        let new = NewSession { spec, title: None, name: None, source: Some(SessionSource::Editor) };
        let record = self.engine.create_session(new).await?;
        self.warm_up(&record);
        let chosen = self.register_open(&record, SessionCost::ZERO);
        Ok(NewSessionResponse::new(record.id.to_string())
            .modes(chosen.mode_state())
            .config_options(chosen.config_options()))
    }

    /// Opens an earlier session and replays it.
    pub(super) async fn load_session(
        &self,
        request: LoadSessionRequest,
    ) -> Result<LoadSessionResponse, AcpError> {
        reject_additional_directories(&request.additional_directories)?;
        let given = convert_servers(&request.mcp_servers)?;
        let record = self.find_stored(&request.session_id.0, &request.cwd).await?;
        let record = self.add_mcp_servers(record, given).await?;
        let spent = self.replay(&record).await?;
        let chosen = self.register_open(&record, spent);
        Ok(LoadSessionResponse::new()
            .modes(chosen.mode_state())
            .config_options(chosen.config_options()))
    }

    pub(super) async fn resume_session(
        &self,
        request: ResumeSessionRequest,
    ) -> Result<ResumeSessionResponse, AcpError> {
        reject_additional_directories(&request.additional_directories)?;
        let given = convert_servers(&request.mcp_servers)?;
        let record = self.find_stored(&request.session_id.0, &request.cwd).await?;
        let record = self.add_mcp_servers(record, given).await?;
        let chosen = self.register_open(&record, SessionCost::UNKNOWN);
        Ok(ResumeSessionResponse::new()
            .modes(chosen.mode_state())
            .config_options(chosen.config_options()))
    }

    /// Creates a session that continues from the current state of another one.
    pub(super) async fn fork_session(
        &self,
        request: ForkSessionRequest,
    ) -> Result<ForkSessionResponse, AcpError> {
        reject_additional_directories(&request.additional_directories)?;
        let given = convert_servers(&request.mcp_servers)?;
        let parent = self.find_stored(&request.session_id.0, &request.cwd).await?;
        let record = self.engine.fork_session(parent.id).await?;
        let record = self.add_mcp_servers(record, given).await?;
        let chosen = self.register_open(&record, SessionCost::ZERO);
        Ok(ForkSessionResponse::new(record.id.to_string())
            .modes(chosen.mode_state())
            .config_options(chosen.config_options()))
    }

    /// Finds a stored session. Fails if this editor is running a prompt in it, or if it belongs to
    /// another directory.
    async fn find_stored(&self, id: &str, cwd: &Path) -> Result<SessionRecord, AcpError> {
        let session: SessionId = id.parse().map_err(|_| AcpError::session_not_found(id))?;
        let runs =
            (self.sessions().get(&session)).is_some_and(|open| open.running_prompt.is_some());
        if runs {
            let message = "a prompt is running in this session; wait for it, or cancel it";
            return Err(AcpError::invalid_params(message));
        }
        let record = self.engine.session(session).await?;
        if record.spec.cwd != cwd {
            return Err(AcpError::wrong_directory(&record.spec.cwd));
        }
        Ok(record)
    }

    /// Adds the MCP servers from the editor's request to the session.
    async fn add_mcp_servers(
        &self,
        record: SessionRecord,
        given: McpServers,
    ) -> Result<SessionRecord, AcpError> {
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
    fn register_open(&self, record: &SessionRecord, spent: SessionCost) -> SessionSettings {
        let spec = &record.spec;
        let executor = |name: &str| *name == *spec.executor;
        let models = (self.settings.models.iter()).find(|one| executor(&one.executor));
        let chosen = SessionSettings {
            level: spec.permissions.level,
            model: spec.model.clone(),
            models: models.map(|one| one.models.clone()).unwrap_or_default(),
        };
        let executors = self.engine.executors().iter();
        let open = OpenSession {
            cwd: spec.cwd.clone(),
            images: executors
                .filter(|one| executor(one.name()))
                .any(|one| one.capabilities().images),
            settings: chosen.clone(),
            has_title: record.title.is_some(),
            cost: spent,
            running_prompt: None,
        };
        self.sessions().insert(record.id, open);
        chosen
    }

    /// Lists sessions, newest first. Omits model-mode sessions: without tools on this machine, they
    /// are of no use in an editor.
    pub(super) async fn list_sessions(
        &self,
        request: ListSessionsRequest,
    ) -> Result<ListSessionsResponse, AcpError> {
        let mut before = match &request.cursor {
            None => None,
            Some(cursor) => {
                let at = cursor.parse::<SessionId>();
                let at = at.map_err(|_| AcpError::invalid_params("the cursor is invalid"))?;
                Some(at.as_uuid())
            }
        };
        let mut found = Vec::new();
        let mut looked_at = 0;
        let next = loop {
            // Read one more than is returned, to know whether there is a next page.
            let limit = MAX_LISTED_SESSIONS + 1;
            let page = self.engine.sessions(Page { limit, before }).await?;
            looked_at += page.len();
            let is_last = page.len() < limit;
            let mut records = page.into_iter();
            for record in records.by_ref() {
                let is_here = (request.cwd.as_ref()).is_none_or(|cwd| *cwd == record.spec.cwd);
                before = Some(record.id.as_uuid());
                if is_here && record.spec.mode == Mode::Agent {
                    found.push(session_info(&record));
                }
                if found.len() == MAX_LISTED_SESSIONS {
                    break;
                }
            }
            if is_last && records.len() == 0 {
                break None;
            }
            if found.len() == MAX_LISTED_SESSIONS || looked_at >= MAX_SCANNED_SESSIONS {
                break before.map(|id| id.to_string());
            }
        };
        Ok(ListSessionsResponse::new(found).next_cursor(next))
    }

    pub(super) async fn delete_session(
        &self,
        request: DeleteSessionRequest,
    ) -> Result<DeleteSessionResponse, AcpError> {
        let id = &*request.session_id.0;
        let session: SessionId = id.parse().map_err(|_| AcpError::session_not_found(id))?;
        self.cancel_prompt(session);
        self.engine.delete_session(session).await?;
        self.sessions().remove(&session);
        Ok(DeleteSessionResponse::new())
    }

    /// Cancels the running prompt and ends the agent's process. The session stays.
    pub(super) async fn close_session(
        &self,
        request: CloseSessionRequest,
    ) -> Result<CloseSessionResponse, AcpError> {
        let session = self.parse_open_session(&request.session_id.0)?;
        self.cancel_prompt(session);
        self.engine.release_session(session).await?;
        self.sessions().remove(&session);
        Ok(CloseSessionResponse::new())
    }

    pub(super) async fn set_mode(
        &self,
        request: SetSessionModeRequest,
    ) -> Result<SetSessionModeResponse, AcpError> {
        let session = self.parse_open_session(&request.session_id.0)?;
        let level = parse_mode(&request.mode_id.0)?;
        let chosen = self.change_level(session, level).await?;
        let update = ConfigOptionUpdate::new(chosen.config_options());
        self.send_update(session, &SessionUpdate::ConfigOptionUpdate(update)).await;
        Ok(SetSessionModeResponse::new())
    }

    pub(super) async fn set_config_option(
        &self,
        request: SetSessionConfigOptionRequest,
    ) -> Result<SetSessionConfigOptionResponse, AcpError> {
        let session = self.parse_open_session(&request.session_id.0)?;
        let SessionConfigOptionValue::ValueId { value } = &request.value else {
            return Err(AcpError::invalid_params("an option needs one of the listed values"));
        };
        let chosen = match &*request.config_id.0 {
            options::MODE_OPTION_ID => {
                let chosen = self.change_level(session, parse_mode(&value.0)?).await?;
                let update = CurrentModeUpdate::new(chosen.level.as_str());
                self.send_update(session, &SessionUpdate::CurrentModeUpdate(update)).await;
                chosen
            }
            options::MODEL_OPTION_ID => self.change_model(session, &value.0).await?,
            unknown => {
                let message = format!("there is no option `{unknown}`; use `mode` or `model`");
                return Err(AcpError::invalid_params(message));
            }
        };
        Ok(SetSessionConfigOptionResponse::new(chosen.config_options()))
    }

    async fn change_level(
        &self,
        session: SessionId,
        level: PermissionLevel,
    ) -> Result<SessionSettings, AcpError> {
        let change = self.engine.change_session(session, move |spec| {
            spec.permissions.level = level;
        });
        change.await?;
        self.update_settings(session, |chosen| chosen.level = level)
    }

    async fn change_model(
        &self,
        session: SessionId,
        value: &str,
    ) -> Result<SessionSettings, AcpError> {
        if value.is_empty() {
            return Err(AcpError::invalid_params("the model must not be empty"));
        }
        let model: Option<Arc<str>> = (value != options::DEFAULT_MODEL).then(|| value.into());
        let wanted = model.clone();
        let change = (self.engine).change_session(session, move |spec| spec.model = wanted);
        change.await?;
        self.update_settings(session, |chosen| chosen.model = model)
    }

    pub(super) fn update_settings(
        &self,
        session: SessionId,
        change: impl FnOnce(&mut SessionSettings),
    ) -> Result<SessionSettings, AcpError> {
        let mut sessions = self.sessions();
        let open = sessions.get_mut(&session);
        let open = open.ok_or_else(|| AcpError::session_not_found(&session.to_string()))?;
        change(&mut open.settings);
        Ok(open.settings.clone())
    }

    /// Parses the id of a session that the editor has open.
    pub(super) fn parse_open_session(&self, id: &str) -> Result<SessionId, AcpError> {
        let session: Option<SessionId> = id.parse().ok();
        session
            .filter(|session| self.sessions().contains_key(session))
            .ok_or_else(|| AcpError::session_not_found(id))
    }

    pub(super) async fn send_update(&self, session: SessionId, update: &SessionUpdate) {
        let mut line = Vec::new();
        UpdateEncoder::new(session, Path::new("/"), self.capabilities().features)
            .write_update(update, &mut line);
        self.send_lines(line).await;
    }
}

fn parse_mode(id: &str) -> Result<PermissionLevel, AcpError> {
    options::parse_level(id).ok_or_else(|| {
        let message = format!("there is no mode `{id}`; use ask, edit or unattended");
        AcpError::invalid_params(message)
    })
}

fn session_info(record: &SessionRecord) -> SessionInfo {
    SessionInfo::new(record.id.to_string(), record.spec.cwd.clone())
        .title(record.title.as_deref().map(ToOwned::to_owned))
        .updated_at(record.updated_at.to_string())
}

/// Refuses additional directories. We do not advertise them, and an editor that sends them anyway
/// must not believe that they are used.
fn reject_additional_directories(more: &[std::path::PathBuf]) -> Result<(), AcpError> {
    if more.is_empty() {
        return Ok(());
    }
    Err(AcpError::invalid_params(
        "a session has one directory here; leave `additionalDirectories` out",
    ))
}

async fn check_directory(cwd: &Path) -> Result<(), AcpError> {
    if !cwd.is_absolute() {
        return Err(AcpError::invalid_params("`cwd` must be an absolute path"));
    }
    match tokio::fs::metadata(cwd).await {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(AcpError::invalid_params(format!("{} is not a directory", cwd.display()))),
        Err(error) => {
            Err(AcpError::invalid_params(format!("cannot work in {}: {error}", cwd.display())))
        }
    }
}
