//! An example for each block of the reference. A test loads them all.

/// The title of a section, and its example.
pub(super) const EXAMPLES: [(&str, &str); 15] = [
    (
        "Top level",
        "\
listen: 127.0.0.1:4400
drain: 30s
desktop_notifications: off
",
    ),
    (
        "`profiles`",
        "\
profiles:
  default:
    model: opus
    budget_seconds: 10m
  review:                       # angelia run -p review \"…\"
    executor: codex
    cwd: ~/src/project
    disallowed_tools: [\"Bash(git push *)\"]
  chat:                         # no tools, no files
    mode: model
    system_prompt_path: ~/prompts/chat.md
",
    ),
    (
        "`providers`",
        "\
providers:
  openrouter:                   # built in: only the key is elsewhere
    keys: [{command: [pass, show, openrouter]}]
  home:
    api: chat
    base_url: http://192.168.1.20:8000/v1
    models:
      qwen3-coder: {context: 65536, images: false}
profiles:
  local:
    executor: native
    model: home/qwen3-coder
",
    ),
    (
        "`executors`",
        "\
executors:
  claude:
    model: sonnet
    env_pass: [GITHUB_TOKEN]
  codex:
    billing: subscription
",
    ),
    (
        "`sessions`",
        "\
sessions:
  idle_ttl: 30m
  keep: 365d
",
    ),
    (
        "`http`",
        "\
http:
  agent_mode: false
  allowed_origins: [\"https://chat.example.org\"]
  model_aliases:
    fast: claude/haiku
",
    ),
    (
        "`limits`",
        "\
limits:
  output_bytes: 16MiB
  connections_per_caller: 16
",
    ),
    (
        "`log`",
        "\
log: {max_size: 5MiB, keep: 2}
",
    ),
    (
        "`bus`",
        "\
bus:
  message_ttl: 2d
  max_queued: 1000
",
    ),
    (
        "`channels`",
        "\
channels:
  telegram:
    token: {file: ~/.angelia/telegram.token}
    allow: [123456789]
    approvers: [123456789]
    groups: [-1001234567890]
    cwd: ~/projects/site
    chats:
      \"-1001234567890#17\": {busy: queue}
",
    ),
    (
        "`hooks_in`",
        "\
hooks_in:
  ci:
    scheme: github
    secret: {env: CI_SECRET}
    prompt: \"A build has ended: {{ body.conclusion }}. What has failed?\"
    reply: telegram:123456789
",
    ),
    (
        "`prices`",
        "\
prices:
  gpt-5.5:
    input: 1.25
    cache_read: 0.125
    output: 10
",
    ),
    (
        "`fleet`",
        "\
fleet:
  store: postgres://angelia@db.example.org/angelia
  machine: desk
",
    ),
    (
        "`mcp_servers`",
        "\
mcp_servers:
  tracker:
    command: tracker-mcp
    args: [--project, angelia]
    env: {TRACKER_TOKEN: from-your-password-manager}
  docs:
    type: http
    url: https://docs.example.org/mcp
",
    ),
    (
        "`claude_code_bridge`",
        "\
claude_code_bridge:
  enabled: true
  model: opus
  timeout: 20m
",
    ),
];
