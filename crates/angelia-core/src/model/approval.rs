//! Approvals: questions that block an agent until somebody decides them.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    ApprovalId, ApprovalStage, FileEdit, RawJson, SessionId, ToolAccess, ToolClass, ToolId,
    ToolPattern, TurnId,
};

/// An agent's request before the engine has checked it against the rules.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The agent's own id for the request; the decision is sent back with it.
    pub key: Arc<str>,
    pub stage: ApprovalStage,
    pub kind: ApprovalKind,
    pub tool_id: Option<ToolId>,
    pub tool_name: Arc<str>,
    pub class: ToolClass,
    /// The text that a pattern's subject is matched against if the call has neither paths nor a command: a
    /// URL, a host, an argument.
    pub subject: Option<Arc<str>>,
    pub access: ToolAccess,
    /// The file changes that the call makes, for the diff on which people base their decision.
    pub edits: Vec<FileEdit>,
    /// Wider rules that the agent proposes. Each is shown to the person as a separate choice.
    pub suggestions: Vec<ToolPattern>,
    /// One line for people; never empty.
    pub title: Arc<str>,
    /// Further text for people: directory, reason, counts and paths of a patch; never empty.
    pub detail: Arc<str>,
    pub input: RawJson,
}

/// A request that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub kind: ApprovalKind,
    pub tool_id: Option<ToolId>,
    pub tool_name: Arc<str>,
    pub title: Arc<str>,
    pub detail: Arc<str>,
    /// A unified diff of the changes. Lines that begin with `\` name changes that are not shown. `None` if
    /// the call changes no file, or the agent does not state the change.
    pub diff: Option<Arc<str>>,
    /// The texts of the rules that a person can grant with `session` and `always`: first exactly this call,
    /// then the wider rules suggested by the agent. Empty for a question.
    pub rules: Vec<Arc<str>>,
    /// After this time the approval counts as denied.
    pub expires_at: Timestamp,
}

/// An approval as stored, for lists and for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRecord {
    pub approval: Approval,
    pub session: SessionId,
    pub turn: TurnId,
    pub requested_at: Timestamp,
    /// The decision and its time; `None` while the approval is pending.
    pub resolution: Option<(Resolution, Timestamp)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalKind {
    /// Permission to run a tool.
    Tool,
    /// Questions that a person answers with text.
    Question(Arc<[Question]>),
}

impl ApprovalKind {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Question(_) => "question",
        }
    }

    /// Returns the verdicts that apply to this kind.
    pub const fn choices(&self) -> &'static [Verdict] {
        match self {
            Self::Tool => &Verdict::ALL,
            Self::Question(_) => &[Verdict::Once, Verdict::Deny, Verdict::Stop],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub text: Arc<str>,
    pub header: Arc<str>,
    pub options: Vec<QuestionOption>,
    pub multiple: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionOption {
    pub label: Arc<str>,
    pub description: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Allow this call.
    Once,
    /// Allow this call, and whatever the chosen rule covers for the rest of the session.
    Session,
    /// Allow this call, and whatever the chosen rule covers in this and later sessions of the profile in this
    /// directory.
    Always,
    /// Deny; the agent continues without the call.
    Deny,
    /// Deny and end the turn.
    Stop,
}

impl Verdict {
    pub const ALL: [Self; 5] = [Self::Once, Self::Session, Self::Always, Self::Deny, Self::Stop];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::Deny => "deny",
            Self::Stop => "stop",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == text)
    }

    pub const fn allows(self) -> bool {
        matches!(self, Self::Once | Self::Session | Self::Always)
    }
}

/// The decision of a person, a rule or a timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// Sent to the agent with a denial.
    pub note: Option<Arc<str>>,
    pub answers: Vec<QuestionAnswer>,
    /// The text of the rule to grant, one of those that the approval offers. `None` means the first one.
    pub rule: Option<Arc<str>>,
    /// Who decided: `owner`, `rule`, `nobody` …
    pub by: Arc<str>,
}

impl Decision {
    pub fn new(verdict: Verdict, by: impl Into<Arc<str>>) -> Self {
        Self { verdict, note: None, answers: Vec::new(), rule: None, by: by.into() }
    }

    #[must_use]
    pub fn with_note(mut self, note: impl Into<Arc<str>>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionAnswer {
    pub question: Arc<str>,
    pub answer: Arc<str>,
}

/// The end of an approval, as shown to viewers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    pub id: ApprovalId,
    pub verdict: Verdict,
    pub by: Arc<str>,
}
