//! Providers and the profiles of our own loop, from the file to the specification.

use std::path::PathBuf;

use angelia_core::{
    model::{
        CompactionSettings, MemoryUse, Mode, NativeSettings, ReasoningEffort, SandboxMode,
        SessionSpec, SummaryFailurePolicy, TokenPrice,
    },
    ports::ExecutorTarget,
};
use angelia_executors::native::{
    provider::{Api, quirks::ReasoningEcho},
    providers::{
        EntraSettings, KeyRotation, KeySource, LoginTarget, OAuthServer, OAuthSettings, Provider,
    },
};

use super::{TestHome, load_error};

fn providers(text: &str) -> Vec<Provider> {
    TestHome::with_file(text).config().providers(Some("/home/owner".as_ref()))
}

fn specs(text: &str, profile: &str) -> Vec<SessionSpec> {
    let place = TestHome::with_file(text);
    place.with_context(|call| place.config().resolve(Some(profile), call)).unwrap()
}

#[test]
fn every_key_of_a_provider_arrives_at_its_place() {
    let text = "\
providers:
  home:
    api: messages
    base_url: http://127.0.0.1:8080/
    keys: [{env: HOME_KEY}, {file: ~/.key}, {command: [pass, show, home]}]
    rotate: least_used
    headers: {X-Team: blue}
    quirks: {reasoning_echo: none, text_tools: true}
    models:
      big/model:
        context: 8192
        output: 1024
        images: false
        tools: true
        reasoning: no
        price: {input: 1, output: 2, cache_read: 0.5}
";
    let [provider] = providers(text).try_into().unwrap();
    assert_eq!((&*provider.name, provider.api), ("home", Api::Messages));
    assert_eq!(&*provider.base_url, "http://127.0.0.1:8080");
    assert_eq!(
        provider.keys,
        [
            KeySource::Env("HOME_KEY".into()),
            KeySource::File("/home/owner/.key".into()),
            KeySource::Command(["pass", "show", "home"].map(Into::into).into()),
        ]
    );
    assert_eq!(provider.rotate, KeyRotation::LeastUsed);
    assert_eq!(provider.headers.get("x-team").unwrap().as_ref(), "blue");
    let quirks = provider.quirks_of("big/model");
    assert_eq!((quirks.reasoning_echo, quirks.text_tools), (ReasoningEcho::None, true));
    let model = provider.model("big/model");
    assert_eq!((model.context, model.output), (Some(8_192), Some(1_024)));
    assert_eq!(
        (model.images, model.tools, model.reasoning),
        (Some(false), Some(true), Some(false))
    );
    let price = TokenPrice { input: 1.0, output: 2.0, cache_read: 0.5, cache_write: 1.0 };
    assert_eq!(model.price, Some(price));
}

#[test]
fn a_built_in_provider_keeps_what_is_not_said() {
    let text = "\
providers:
  openai: {base_url: 'https://proxy.example.com/v1'}
  anthropic: {keys: []}
  azure: {base_url: 'https://mine.openai.azure.com/openai/v1/'}
";
    let found = providers(text);
    let shown: Vec<String> = found
        .iter()
        .map(|one| {
            let keys: Vec<String> = one.keys.iter().map(ToString::to_string).collect();
            format!("{} {} {} [{}]", one.name, one.api.as_str(), one.base_url, keys.join(", "))
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    anthropic messages https://api.anthropic.com []
    azure chat https://mine.openai.azure.com/openai/v1 [env AZURE_OPENAI_API_KEY]
    openai responses https://proxy.example.com/v1 [env OPENAI_API_KEY]
    ");
}

#[test]
fn mistakes_are_named_with_their_lines() {
    let text = "\
providers:
  one: {api: grpc, base_url: api.example.com}
  two: {api: chat, base_url: 'http://api.example.com/v1', keys: [{env: A B}]}
  three: {api: chat, base_url: 'https://k@api.example.com', keys: [TOKEN, {env: A, file: /b}]}
  four: {keys: [{variable: A}], headers: {'a b': c}, qirks: {}}
  five: {quirks: {store: maybe, max_tokens_field: max}, models: {m: {context: 0, price: {in: 1}}}}
  a/b: {}
profiles:
  default: {max_iterations: 0, reasoning: more, sandbox: bubblewrap, sandbox_read: [src], network: lan}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:2: `providers.one.api` expects messages | chat | responses, not `grpc`
      config.yaml:2: `providers.one.base_url` is not an http or https address, such as https://api.example.com/v1
      config.yaml:3: `providers.two.base_url` would send keys and prompts over the network unencrypted; use https (http only for this machine and its own network)
      config.yaml:3: `providers.two.keys[0].env` expects a variable's name, not `A B`
      config.yaml:4: `providers.three.base_url` has a user, a query or a fragment; a key belongs in `keys`, everything else in `headers`
      config.yaml:4: `providers.three.keys[0]` expects `{env: NAME}`, `{file: PATH}`, `{command: [PROGRAM, …]}`, `{entra: {…}}` or `{oauth: {…}}`, not `TOKEN`
      config.yaml:4: `providers.three.keys[1]` expects `{env: NAME}`, `{file: PATH}`, `{command: [PROGRAM, …]}`, `{entra: {…}}` or `{oauth: {…}}`, not a mapping
      config.yaml:5: `providers.four.keys[0].variable` is not a known key; known here: env, file, command, entra, oauth
      config.yaml:5: `providers.four.headers.a b` is not a name that can be used here; use the name of a header: letters, digits and `-`
      config.yaml:5: `providers.four.qirks` is not a known key; did you mean `quirks`?
      config.yaml:6: `providers.five.quirks.store` expects true or false, not `maybe`
      config.yaml:6: `providers.five.quirks.max_tokens_field` expects max_tokens | max_completion_tokens, not `max`
      config.yaml:6: `providers.five.models.m.context` expects a whole number from 1 to 100000000, not `0`
      config.yaml:6: `providers.five.models.m.price.in` is not a known key; known here: input, output, cache_read, cache_write
      config.yaml:7: `providers.a/b` is not a name that can be used here; use a name of letters, digits, `_`, `-` and `.`
      config.yaml:9: `profiles.default.max_iterations` expects a whole number from 1 to 10000, not `0`
      config.yaml:9: `profiles.default.reasoning` expects off | low | medium | high | max, not `more`
      config.yaml:9: `profiles.default.sandbox` expects auto | landlock | off, not `bubblewrap`
      config.yaml:9: `profiles.default.sandbox_read[0]` expects an absolute path, or one that starts with ~/, not `src`
      config.yaml:9: `profiles.default.network` expects true or false, not `lan`
    correct it, then try `angelia config check`
    ");
}

#[test]
fn what_a_provider_or_a_profile_lacks_is_said() {
    let text = "\
providers:
  home: {base_url: 'http://127.0.0.1:8080/v1'}
  azure: {}
profiles:
  none: {executor: native}
  bare: {executor: native, model: gpt-5.5}
  typo: {executor: native, model: olama/qwen3}
  else: {executor: native, model: 'x/y'}
  good: {executor: native, model: ollama/qwen3}
  claude: {executor: claude, max_iterations: 5, fallback: [ollama/qwen3]}
  chain: {executor: native, model: ollama/qwen3, fallback: [ollama/a, olama/b, c]}
  codex: {executor: codex}
executors:
  codex: {network: on}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:2: `providers.home` has no `api`; only the built-in providers need none: anthropic, openai, openrouter, deepseek, xai, gemini, azure, ollama, llamacpp, vllm, lmstudio
      config.yaml:3: `providers.azure` has no `base_url`, which differs for every customer
      config.yaml:5: `profiles.none.executor` needs a `model`; write PROVIDER/MODEL, such as ollama/qwen3:8b
      config.yaml:6: `profiles.bare.model` names no provider; write PROVIDER/MODEL, such as ollama/qwen3:8b
      config.yaml:7: `profiles.typo.model` names the provider `olama`, but there is none of this name; did you mean `ollama`?
      config.yaml:8: `profiles.else.model` names the provider `x`, but there is none of this name; add it to `providers`, or use one of: home, anthropic, openai, openrouter, deepseek, xai, gemini, azure, ollama, llamacpp, vllm, lmstudio
      config.yaml:10: `profiles.claude.fallback` is only for `executor: native`; set that, or remove it
      config.yaml:10: `profiles.claude.max_iterations` is only for `executor: native`; set that, or remove it
      config.yaml:11: `profiles.chain.fallback[1]` names the provider `olama`, but there is none of this name; did you mean `ollama`?
      config.yaml:11: `profiles.chain.fallback[2]` names no provider; write PROVIDER/MODEL, such as ollama/qwen3:8b
      config.yaml:14: `profiles.codex.network` is only for `executor: native`; set that, or remove it
    correct it, then try `angelia config check`
    ");
    insta::assert_snapshot!(
        load_error("profiles: {p: {executor: native, model: azure/gpt-5.5}}\n"),
        @"
        the configuration is not valid:
          config.yaml:1: `profiles.p.model` needs `providers.azure.base_url`, which differs for every customer
        correct it, then try `angelia config check`
        "
    );
}

#[test]
fn the_settings_of_the_loop_reach_the_specification() {
    let text = "\
executors: {native: {max_iterations: 12, model: ollama/small}}
profiles:
  p:
    executor: native
    fallback: [openrouter/a/b, ollama/c]
    max_output_tokens: 4096
    reasoning: off
    sandbox: landlock
    sandbox_read: [/opt/sdk]
    sandbox_write: [~/.cache/tool]
    network: on
    memory: {from: any}
    compaction: {at: 0.5, protect_first_n: 0, on_summary_failure: truncate}
";
    let place = TestHome::with_file(text);
    let specs = place.with_context(|call| place.config().resolve(Some("p"), call)).unwrap();
    let [spec] = specs.try_into().unwrap();
    assert_eq!((&*spec.executor, spec.model.as_deref()), ("native", Some("ollama/small")));
    let expected = NativeSettings {
        fallback: vec!["openrouter/a/b".into(), "ollama/c".into()],
        max_iterations: 12,
        max_output_tokens: Some(4_096),
        reasoning: Some(ReasoningEffort::Off),
        sandbox: SandboxMode::Landlock,
        sandbox_read: vec!["/opt/sdk".into()],
        sandbox_write: vec![PathBuf::from(place.folder.path()).join(".cache/tool")],
        network: true,
        memory: MemoryUse::FromAny,
        reviews: None,
        compaction: CompactionSettings {
            at_permille: 500,
            protect_first_n: 0,
            on_summary_failure: SummaryFailurePolicy::Truncate,
        },
    };
    assert_eq!(spec.native, expected);
}

#[test]
fn a_model_id_of_the_apis_has_no_fallback() {
    let text = "executors: {native: {fallback: [ollama/spare], max_iterations: 3}}\n";
    let place = TestHome::with_file(text);
    let target = ExecutorTarget { executor: "native".into(), mode: Mode::Model };
    let specs = place.with_context(|call| place.config().resolve_target(&target, call)).unwrap();
    let [spec] = specs.try_into().unwrap();
    assert_eq!((spec.native.max_iterations, spec.native.fallback.len()), (3, 0));
}

#[test]
fn auto_takes_the_loop_last_if_there_is_a_model_for_it() {
    let on = |text: &str| -> Vec<String> {
        let specs = specs(text, "default");
        let line = |spec: &SessionSpec| match &spec.model {
            Some(model) => format!("{} {model}", spec.executor),
            None => spec.executor.to_string(),
        };
        specs.iter().map(line).collect()
    };
    assert_eq!(on(""), ["claude", "codex", "parrot"]);
    let home = "providers: {home: {api: chat, base_url: 'http://localhost/v1', models: {m: {}}}}\n";
    assert_eq!(on(home), ["claude", "codex", "native home/m", "parrot"]);
    let other =
        format!("{home}executors: {{native: {{model: ollama/q}}, claude: {{model: opus}}}}\n");
    assert_eq!(on(&other), ["claude opus", "codex", "native ollama/q", "parrot"]);
    // The model is one of an agent's.
    let agent = format!("{home}profiles: {{default: {{model: opus}}}}\n");
    assert_eq!(on(&agent), ["claude opus", "codex opus", "parrot opus"]);
    let two = home.replace("m: {}", "m: {}, n: {}");
    assert_eq!(on(&two), ["claude", "codex", "parrot"]);
    let none = "providers: {home: {api: chat, base_url: 'http://localhost/v1'}}\n";
    assert_eq!(on(none), ["claude", "codex", "parrot"]);
}

#[test]
fn headers_are_secrets() {
    let text = "providers: {openai: {headers: {X-Team: a-secret-of-the-team}}}\n";
    let config = TestHome::with_file(text).config();
    assert_eq!(config.secrets(), ["a-secret-of-the-team"]);
    assert!(!config.show().contains("a-secret"), "{}", config.show());
}

#[test]
fn e33_credentials_without_a_key_arrive_at_their_places() {
    let text = "\
providers:
  azure:
    base_url: https://mine.openai.azure.com/openai/v1
    keys:
      - entra: {}
      - entra: {tenant: t, client_id: c, secret_env: S, token_file: ~/token, scope: 'https://x/.default'}
  home:
    api: chat
    base_url: https://models.example.com/v1
    keys:
      - oauth: {issuer: 'https://id.example.com/', client_id: ours, scope: openid offline_access}
      - oauth: {device_url: 'https://id.example.com/device', token_url: 'https://id.example.com/token', client_id: x}
";
    let [azure, home] = providers(text).try_into().unwrap();
    let full = EntraSettings {
        tenant: Some("t".into()),
        client_id: Some("c".into()),
        secret_env: Some("S".into()),
        token_file: Some("/home/owner/token".into()),
        scope: "https://x/.default".into(),
    };
    let expected = [EntraSettings::default(), full].map(KeySource::Entra);
    assert_eq!(azure.keys, expected);
    assert_eq!(azure.lane(), "entra");
    let login = |server, client_id: &str, scope: Option<&str>| {
        KeySource::OAuth(OAuthSettings {
            target: LoginTarget::Provider("home".into()),
            server,
            client_id: client_id.into(),
            scope: scope.map(Into::into),
        })
    };
    let addresses = OAuthServer::Addresses {
        device_url: "https://id.example.com/device".into(),
        token_url: "https://id.example.com/token".into(),
    };
    let issuer = OAuthServer::Issuer("https://id.example.com".into());
    assert_eq!(
        home.keys,
        [login(issuer, "ours", Some("openid offline_access")), login(addresses, "x", None)]
    );
    assert_eq!(home.lane(), "oauth");
}

#[test]
fn e33_what_a_login_lacks_is_said() {
    let text = "\
providers:
  one: {api: chat, base_url: 'https://a.example.com', keys: [{oauth: {issuer: 'https://id.example.com'}}]}
  two: {api: chat, base_url: 'https://a.example.com', keys: [{oauth: {client_id: a, token_url: 'https://id.example.com'}}]}
  three: {api: chat, base_url: 'https://a.example.com', keys: [{oauth: {client_id: a, issuer: 'http://id.example.com'}}]}
  four: {api: chat, base_url: 'https://a.example.com', keys: [{entra: {secret: abc}}]}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:2: `providers.one.keys[0]` needs `oauth.client_id`: register a client at the server and write its id
      config.yaml:3: `providers.two.keys[0]` needs `oauth.issuer`, or `oauth.device_url` and `oauth.token_url` instead of it
      config.yaml:4: `providers.three.keys[0].oauth.issuer` would send keys and prompts over the network unencrypted; use https (http only for this machine and its own network)
      config.yaml:5: `providers.four.keys[0].entra.secret` is not a known key; did you mean `secret_env`?
    correct it, then try `angelia config check`
    ");
}

#[test]
fn a_login_of_an_mcp_server_is_checked_where_it_is_ours() {
    let text = "\
mcp_servers:
  one: {url: 'https://a.example.com', oauth: {issuer: 'https://id.example.com'}}
  two: {url: 'https://a.example.com', oauth: {client_id: a, issuer: 'http://id.example.com'}}
  three: {url: 'https://a.example.com', oauth: {client_id: a, token_url: 'https://id.example.com'}}
  four: {command: x, oauth: {client_id: a, issuer: 'https://id.example.com'}}
  five: {url: 'https://a.example.com', oauth: {clientId: a, scope: b}}
  six: {url: 'https://a.example.com', oauth: {clientId: a, callbackPort: 8080}}
  seven: {url: 'https://a.example.com', oauth: {client_id: a, scope: b}}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:2: `mcp_servers.one` needs `oauth.client_id`: register a client at the server and write its id
      config.yaml:3: `mcp_servers.two.oauth.issuer` would send keys and prompts over the network unencrypted; use https (http only for this machine and its own network)
      config.yaml:4: `mcp_servers.three` needs `oauth.issuer`, or `oauth.device_url` and `oauth.token_url` instead of it
      config.yaml:5: `mcp_servers.four` has `oauth`, which is for servers with a `url`
      config.yaml:6: `mcp_servers.five.oauth.clientId` is not a known key; did you mean `client_id`?
      config.yaml:6: `mcp_servers.five` needs `oauth.client_id`: register a client at the server and write its id
    correct it, then try `angelia config check`
    ");
}
