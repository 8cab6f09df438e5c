//! Just enough of Rust's grammar: words and signs without comments and literals, and the paths among them.

/// Words (identifiers, keywords, numbers), `::`, and single signs.
pub(crate) fn tokens(source: &str) -> Vec<String> {
    let mut chars = Chars { rest: source };
    let mut tokens = Vec::new();
    while let Some(first) = chars.peek() {
        if chars.skip_comment() || chars.skip_literal() {
            continue;
        }
        if first.is_alphanumeric() || first == '_' {
            tokens.push(chars.take_while(|c| c.is_alphanumeric() || c == '_').to_owned());
        } else if chars.rest.starts_with("::") {
            chars.skip(2);
            tokens.push("::".to_owned());
        } else {
            chars.skip(first.len_utf8());
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
        }
    }
    tokens
}

struct Chars<'a> {
    rest: &'a str,
}

impl<'a> Chars<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_past(&mut self, end: &str) {
        let at = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
        self.skip(at);
    }

    fn skip_comment(&mut self) -> bool {
        if self.rest.starts_with("//") {
            self.skip_past("\n");
            return true;
        }
        if !self.rest.starts_with("/*") {
            return false;
        }
        let mut depth = 0;
        while !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.skip(2);
                if depth == 0 {
                    break;
                }
            } else {
                self.skip(self.peek().map_or(1, char::len_utf8));
            }
        }
        true
    }

    /// Strings with or without prefix, raw strings, characters; not lifetimes.
    fn skip_literal(&mut self) -> bool {
        let prefix = ["br", "cr", "r", "b", "c", ""]
            .into_iter()
            .find(|prefix| self.rest.starts_with(prefix) && self.opens_literal(prefix))
            .filter(|prefix| !prefix.is_empty() || self.rest.starts_with(['"', '\'']));
        let Some(prefix) = prefix else { return false };
        self.skip(prefix.len());
        let hashes = self.take_while(|c| c == '#').to_owned();
        if prefix.ends_with('r') {
            self.skip(1);
            self.skip_past(&format!("\"{hashes}"));
        } else if self.rest.starts_with('"') {
            self.skip_quoted('"');
        } else {
            self.skip_quoted('\'');
        }
        true
    }

    fn opens_literal(&self, prefix: &str) -> bool {
        let after = &self.rest[prefix.len()..];
        match prefix {
            "r" | "br" | "cr" => after.trim_start_matches('#').starts_with('"'),
            _ if after.starts_with('"') => true,
            "" | "b" => is_character(after),
            _ => false,
        }
    }

    fn skip_quoted(&mut self, quote: char) {
        self.skip(1);
        while let Some(c) = self.peek() {
            self.skip(c.len_utf8());
            if c == '\\' {
                self.skip(self.peek().map_or(0, char::len_utf8));
            } else if c == quote {
                break;
            }
        }
    }
}

/// `'x'` and `'\n'`, as opposed to the lifetime `'x`.
fn is_character(text: &str) -> bool {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some('\''), Some('\\')) => true,
        (Some('\''), Some(_)) => chars.next() == Some('\''),
        _ => false,
    }
}

/// The tokens without what is compiled for tests only: items behind `#[cfg(test)]`.
pub(crate) fn without_tests(tokens: &[String]) -> Vec<String> {
    let marker = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].iter().map(String::as_str).take(marker.len()).eq(marker) {
            at = end_of_item(tokens, at + marker.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The position after an item: past its `;`, or past the brace that closes it.
fn end_of_item(tokens: &[String], start: usize) -> usize {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" => braces += 1,
            "}" => braces = braces.saturating_sub(1),
            "(" | "[" => brackets += 1,
            ")" | "]" => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        if braces == 0 && brackets == 0 && matches!(token.as_str(), "}" | ";") {
            return at + 1;
        }
    }
    tokens.len()
}

/// Every path that starts at `crate`, `super` or `self`, from the crate's root on. `module` is where the file stands.
pub(crate) fn own_paths(tokens: &[String], module: &[&str]) -> Vec<Vec<String>> {
    let mut here: Vec<(String, usize)> = Vec::new();
    let (mut depth, mut paths) = (0, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => {
                depth += 1;
                if at >= 2 && tokens[at - 2] == "mod" {
                    here.push((tokens[at - 1].clone(), depth));
                }
            }
            "}" => {
                if here.last().is_some_and(|(_, opened)| *opened == depth) {
                    here.pop();
                }
                depth -= 1;
            }
            "crate" | "super" | "self" if starts_path(tokens, at) => {
                let base = module.iter().map(|name| (*name).to_owned());
                let inner = here.iter().map(|(name, _)| name.clone());
                follow(tokens, at, base.chain(inner).collect(), &mut paths);
            }
            _ => {}
        }
    }
    paths
}

fn starts_path(tokens: &[String], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|next| next == "::") && (at == 0 || tokens[at - 1] != "::")
}

/// Follows one path, or a tree of them behind `{`, from the token `at`; returns the position after it.
fn follow(tokens: &[String], mut at: usize, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("crate") => path.clear(),
            Some("super") => drop(path.pop()),
            Some("self") => {}
            Some("{") => return follow_all(tokens, at + 1, &path, paths),
            Some(word) => path.push(word.to_owned()),
            None => break,
        }
        at += 1;
        if tokens.get(at).is_none_or(|next| next != "::") {
            break;
        }
        at += 1;
    }
    paths.push(path);
    at
}

fn follow_all(tokens: &[String], mut at: usize, path: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "}" => return at + 1,
            "," => at += 1,
            "as" => at += 2,
            _ => at = follow(tokens, at, path.to_vec(), paths),
        }
    }
    at
}
