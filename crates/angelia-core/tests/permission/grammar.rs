//! Scripts that may run `rm`: constructs of the shell around wrappers around spellings of the name,
//! sometimes with a character too many.

use std::path::{Path, PathBuf};

pub(crate) struct ScriptGenerator {
    state: u64,
    fake_rm: PathBuf,
    /// Numbers here-documents and variables, so that nested ones differ.
    next: u32,
}

/// Characters that mean something to a shell.
const SPECIAL: [&str; 26] = [
    "'", "\"", "\\", "`", "$", "(", ")", "{", "}", ";", "&", "|", "<", ">", "\n", " ", "#", "=",
    "[", "]", "*", "!", "\\\n", "$(", "<<", "))",
];

impl ScriptGenerator {
    pub(crate) fn new(seed: u64, fake_rm: impl AsRef<Path>) -> Self {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
        Self { state, fake_rm: fake_rm.as_ref().to_owned(), next: 0 }
    }

    pub(crate) fn script(&mut self) -> String {
        let mut script = self.command(3);
        if self.below(3) == 0 {
            for _ in 0..=self.below(2) {
                self.mutate(&mut script);
            }
        }
        script
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap() % limit
    }

    fn pick(&mut self, from: &[&str]) -> String {
        from[self.below(from.len())].to_owned()
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn mutate(&mut self, script: &mut String) {
        // Never before a slash: the rest of a path, such as `/usr/bin`, could name a real file.
        let ends: Vec<usize> =
            script.char_indices().filter(|(_, next)| *next != '/').map(|(at, _)| at).collect();
        let at = ends[self.below(ends.len())];
        let special = SPECIAL[self.below(SPECIAL.len())];
        script.insert_str(at, special);
    }

    /// A word that becomes `rm`, or nearly.
    fn name(&mut self) -> String {
        let path = self.fake_rm.display().to_string();
        let folder = path.trim_end_matches("/rm");
        let any = [
            "rm",
            "rm",
            "rm",
            "'rm'",
            "\"rm\"",
            "r\\m",
            "\\rm",
            "r''m",
            "r\"\"m",
            "\"r\"m",
            "r\\\nm",
            "$'rm'",
            "$\"rm\"",
            "$(echo rm)",
            "`echo rm`",
            "${v-rm}",
            "${v:-r}m",
            "\"$(echo rm)\"",
            "r$()m",
            "echo",
            "true",
            "{rm,}",
            "$v",
        ];
        match self.below(12) {
            0 => path,
            1 => format!("{folder}/r?"),
            2 => format!("'{folder}'/rm"),
            3 => format!("{folder}/../fake/rm"),
            _ => self.pick(&any),
        }
    }

    /// Words without operators: what can follow a wrapper.
    fn words(&mut self, depth: usize) -> String {
        if depth == 0 || self.below(3) == 0 {
            let argument = self.pick(&["x", "", "-f x", "\"a b\"", "$x", "*"]);
            return format!("{} {argument}", self.name());
        }
        let inner = self.words(depth - 1);
        match self.below(32) {
            0 => format!("env {inner}"),
            1 => format!("env A=1 B='2 3' {inner}"),
            2 => format!("env -u A {inner}"),
            3 => format!("env -S {}", quote(&inner)),
            4 => format!("env --split-string={}", quote(&inner)),
            5 => format!("command {inner}"),
            6 => format!("exec {inner}"),
            7 => format!("nice {inner}"),
            8 => format!("nice -n 5 {inner}"),
            9 => format!("nice -5 {inner}"),
            10 => format!("nohup {inner}"),
            11 => format!("timeout 5 {inner}"),
            12 => format!("timeout -k 1 --signal=KILL 5 {inner}"),
            13 => format!("stdbuf -oL {inner}"),
            14 => format!("setsid -w {inner}"),
            15 => format!("builtin command {inner}"),
            16 => format!("find . -maxdepth 0 -exec {inner} \\;"),
            17 => format!("find . -maxdepth 0 -exec {inner} {{}} +"),
            18 => format!("xargs -n1 {inner}"),
            19 => format!("xargs -I{{}} {inner} {{}}"),
            20 => format!("env -vu A {inner}"),
            21 => format!("env -vS {}", quote(&inner)),
            22 => format!("env -S {}", quote(&format!("-u A {inner}"))),
            23 => format!("timeout -vs9 5 {inner}"),
            24..=27 => self.run_by_program(&inner),
            _ => {
                let script = self.command(depth - 1);
                let shell = self.pick(&[
                    "sh -c",
                    "bash -c",
                    "bash -ec",
                    "bash -lc",
                    "sh -ec",
                    "bash -eo pipefail -c",
                    "bash -oc pipefail",
                    "sh -co errexit",
                    "eval",
                ]);
                format!("{shell} {}", quote(&script))
            }
        }
    }

    /// Options and variables whose value a program runs.
    fn run_by_program(&mut self, inner: &str) -> String {
        let text = quote(inner);
        let n = self.fresh();
        match self.below(16) {
            0 => format!("tar -cf a{n} --checkpoint=1 --checkpoint-action=exec={text} ."),
            1 => format!("tar -cf a{n} --checkpoint=1 --checkpoint-action exec={text} ."),
            2 => format!("tar -cf a{n} --use-compress={text} ."),
            3 => format!("tar -cf a{n} -I {text} ."),
            4 => format!("tar cfI a{n} {text} ."),
            5 => format!("split --filter={text} s"),
            6 => format!("split --filt {text} s"),
            7 => format!("git -c alias.q={} q", quote(&format!("!{inner}"))),
            8 => format!("git -C . -c core.editor={text} config --global -e"),
            9 => {
                format!("git config --global alias.q{n} {}; git q{n}", quote(&format!("!{inner}")))
            }
            10 => format!("env GIT_EDITOR={text} git config --global -e"),
            11 => format!("env VISUAL={text} git config --global -e"),
            12 => format!(
                "env TAR_OPTIONS=--checkpoint-action=exec=rm tar -c --checkpoint=1 -f a{n} ."
            ),
            13 => format!("sort -S 1k --compress-program={text} many"),
            14 => format!("awk {}", quote(&format!("BEGIN {{ system({inner:?}) }}"))),
            _ => format!("awk {}", quote(&format!("BEGIN {{ print | {inner:?} }}"))),
        }
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.words(1);
        }
        let inner = if self.below(3) == 0 { self.words(depth) } else { self.command(depth - 1) };
        let n = self.fresh();
        match self.below(5) {
            0 => self.listed(&inner, n),
            1 => self.compound(&inner, n),
            2 => self.substituted(&inner, n),
            3 => self.evaluated(&inner, n),
            _ => self.behind_noise(&inner, n),
        }
    }

    fn listed(&mut self, inner: &str, n: u32) -> String {
        match self.below(15) {
            0 => format!("true; {inner}"),
            1 => format!("true && {inner}"),
            2 => format!("false || {inner}"),
            3 => format!("echo x | {inner}"),
            4 => format!("{inner} | cat"),
            5 => format!("true & {inner}"),
            6 => format!("true\n{inner}"),
            7 => format!("true &> o {inner}"),
            8 => format!("A{n}=1 {inner}"),
            9 => format!(">o{n} {inner}"),
            10 => format!("2>o 3>&1 {inner}"),
            11 => format!("GIT_EDITOR={} git config --global -e", quote(inner)),
            12 => format!("export EDITOR={}; git config --global -e", quote(inner)),
            13 => format!("EDITOR=tr; EDITOR+=ue; {inner}"),
            _ => format!("{{fd}}>o {inner}"),
        }
    }

    fn compound(&mut self, inner: &str, n: u32) -> String {
        match self.below(20) {
            0 => format!("({inner})"),
            1 => format!("{{ {inner}\n}}"),
            2 => format!("! {inner}"),
            3 => format!("if {inner}\nthen :; fi"),
            4 => format!("if true; then {inner}\nfi"),
            5 => format!("if false; then :; else {inner}\nfi"),
            6 => format!("while {inner}\ndo break; done"),
            7 => format!("for i in 1; do {inner}\ndone"),
            8 => format!("for i in 1\ndo {inner}\ndone"),
            9 => format!("for ((i=0;i<1;i++)); do {inner}\ndone"),
            10 => format!("case x in x) {inner}\n;; esac"),
            11 => format!("case x in (a|b) :;; *) {inner}\nesac"),
            12 => format!("f{n}() {{ {inner}\n}}; f{n}"),
            13 => format!("function f{n} {{ {inner}\n}}; f{n}"),
            14 => format!("f{n}() ({inner}); f{n}"),
            15 => format!("time {inner}"),
            16 => format!("time -p {inner}"),
            17 => format!("(({inner}))"),
            18 => format!("[[ a && {inner} ]]"),
            _ => format!("until {inner}\ndo break; done"),
        }
    }

    fn substituted(&mut self, inner: &str, n: u32) -> String {
        match self.below(20) {
            0 => format!("echo $({inner})"),
            1 => format!("echo \"a $({inner}) b\""),
            2 => format!(
                "echo `{}`",
                inner.replace('\\', "\\\\").replace('`', "\\`").replace('$', "\\$")
            ),
            3 => format!("echo ${{y-$({inner})}}"),
            4 => format!("echo \"${{y:-$({inner})}}\""),
            5 => format!("echo $((1 + $({inner}; echo 1)))"),
            6 => format!("cat <({inner})"),
            7 => format!("echo > >({inner})"),
            8 => format!("v{n}=$({inner})"),
            9 => format!("a{n}=(1 $({inner}))"),
            10 => format!("a{n}[$({inner})]=1"),
            11 => format!("[ -n \"$({inner})\" ]"),
            12 => format!("[[ -n $({inner}) ]]"),
            13 => format!("cat <<E{n}\na $({inner}) b\nE{n}\n"),
            14 => format!("cat <<-E{n}\n\t$({inner})\n\tE{n}\n"),
            15 => format!("cat <<E{n}; {inner}\ntext\nE{n}\n"),
            16 => format!("case $({inner}) in *) ;; esac"),
            17 => format!("for i in $({inner}); do :; done"),
            18 => format!("echo $( ({inner}) )"),
            _ => format!("cat <<<\"$({inner})\""),
        }
    }

    /// Text that is run only because something evaluates it.
    fn evaluated(&mut self, inner: &str, n: u32) -> String {
        let text = quote(inner);
        let substitution = quote(&format!("b[$({inner})]"));
        match self.below(20) {
            0 => format!("eval {text}"),
            1 => format!("echo {text} | sh"),
            2 => format!("sh <<'E{n}'\n{inner}\nE{n}\n"),
            3 => format!("bash <<<{text}"),
            4 => format!("trap {text} EXIT"),
            5 => format!("x{n}={text}; eval \"$x{n}\""),
            6 => format!("x{n}={text}; sh -c \"$x{n}\""),
            7 => format!("echo {text} > s{n}; . ./s{n}"),
            8 => format!("PS4={}; set -x; :", quote(&format!("$({inner})"))),
            9 => format!("v{n}={substitution}; echo $((v{n}))"),
            10 => format!("v{n}={substitution}; [[ $v{n} -eq 0 ]]"),
            11 => format!("v{n}={substitution}; ((v{n}))"),
            12 => format!("declare -i v{n}={substitution}"),
            13 => format!("let {substitution}"),
            14 => format!("printf -v {substitution} x"),
            15 => format!("v{n}={}; echo ${{v{n}@P}}", quote(&format!("$({inner})"))),
            16 => format!("alias q{n}={text}\nq{n}"),
            17 => format!("echo {text} | xargs -I{{}} sh -c '{{}}'"),
            18 => format!("v{n}={substitution}; echo ${{w[v{n}]}}"),
            _ => format!("set -- {substitution}; echo $(($1))"),
        }
    }

    /// Text before a command that could make a parser lose its place.
    fn behind_noise(&mut self, inner: &str, n: u32) -> String {
        let noise = [
            "echo 'it'\"'\"'s';",
            "echo \"a\\\"b\";",
            "echo a\\;b;",
            "echo \\\\;",
            "# it's\n",
            "echo a#'b;\n';",
            "echo '#' ;",
            "echo \"${x:-}}\";",
            "echo ${x#'}'};",
            "echo \"$(echo \")\")\";",
            "echo $((1<<2));",
            "echo \"`echo \\\"a\\\"`\";",
            "echo $'a';",
            "echo ${x%\\}};",
            "echo $(case x in x) echo;; esac);",
            "echo \"$((1))\";",
            "echo a{b,c}d;",
            "echo [!a] ;",
            "x=(\")\" ');');",
            "echo \\\n;",
            "echo \"\\\n\";",
            "echo ${x:-\"}\"};",
            "echo \"${x:-\"}\"}\";",
            "echo $# $$ $? $!;",
            "echo ~ =a;",
            "[ a = b ];",
            "[[ a =~ ^(b|c)$ ]];",
            "echo > o;",
            "echo <<<a;",
            "case esac in esac) ;; esac;",
            "if [ ];then :;fi;",
        ];
        let noise = self.pick(&noise);
        match self.below(8) {
            0 => format!("cat <<'E{n}'\n$(no\" '\nE{n}\n{inner}"),
            1 => format!("cat <<E{n}\nit's \"\nE{n}\n{inner}"),
            2 => format!("cat <<\\E{n} <<F{n}\nE{n}\nF\nF{n}\n{inner}"),
            3 => format!("cat <<\"E {n}\"\nE\nE {n}\n{inner}"),
            _ => format!("{noise} {inner}"),
        }
    }
}

/// Quotes a text for a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
