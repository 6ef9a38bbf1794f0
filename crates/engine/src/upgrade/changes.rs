//! What a mount's client would be made of today, and in what that differs. In: the recipe of the live mount and a plan. Out: [`Changes`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::Layer;
use crate::plan::{ClientPlan, Root};
use crate::recipe::Recipe;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub image: Option<ImageChange>,
    /// Keys of the definition, such as `limits.memory`.
    pub definition: Vec<String>,
}

/// By digest, or by name if it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageChange {
    pub from: String,
    pub to: String,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.image.is_none() && self.definition.is_empty()
    }

    /// `image`: of the new client.
    pub(crate) fn between(recipe: &Recipe, before: String, plan: &ClientPlan, image: String) -> Self {
        let image = ImageChange { from: before, to: image };
        let request = &recipe.request;
        // What the caller said counts more than the definition.
        let matters = |key: &String| match key.as_str() {
            "image" => request.image.is_none(),
            "container" => request.container.is_none(),
            "mode" => request.mode.is_none(),
            // For people who write requests.
            "example" | "guests" => false,
            _ => true,
        };
        Self {
            image: (matches!(plan.root, Root::Image(_)) && image.from != image.to).then_some(image),
            definition: keys(&recipe.definition, &plan.recipe.definition).into_iter().filter(matters).collect(),
        }
    }
}

impl std::fmt::Display for Changes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let image = self.image.as_ref().map(|image| format!("image {} → {}", short(&image.from), short(&image.to)));
        let definition = (!self.definition.is_empty()).then(|| format!("definition: {}", self.definition.join(", ")));
        let parts: Vec<_> = image.into_iter().chain(definition).collect();
        out.write_str(&parts.join("; "))
    }
}

/// A digest as `list` shows it.
fn short(name: &str) -> &str {
    match name.strip_prefix("sha256:") {
        Some(hex) if hex.len() == 64 => &hex[..12],
        _ => name,
    }
}

fn keys(old: &Layer, new: &Layer) -> Vec<String> {
    let value = |layer| serde_json::to_value(layer).unwrap_or_default();
    let mut keys = Vec::new();
    collect(&value(old), &value(new), "", &mut keys);
    keys
}

/// A key that is not there is as one without a value.
fn collect(old: &Value, new: &Value, prefix: &str, keys: &mut Vec<String>) {
    let none = serde_json::Map::new();
    let table = |value: &Value| value.as_object().cloned().or_else(|| value.is_null().then(|| none.clone()));
    match (table(old), table(new)) {
        _ if old == new => {}
        (Some(old), Some(new)) => {
            let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for name in names {
                let get = |table: &serde_json::Map<String, Value>| table.get(name).cloned().unwrap_or(Value::Null);
                let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                collect(&get(&old), &get(&new), &key, keys);
            }
        }
        _ => keys.push(prefix.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_are_named() {
        let base = "types = [\"x\"]\nimage = \"dir:/x\"\n[limits]\nmemory = \"1G\"\n[env]\nA = \"1\"\n";
        let rows = [
            (base, &[][..]),
            ("types = [\"x\"]\nimage = \"dir:/x\"\n[limits]\nmemory = \"2G\"\n[env]\nA = \"1\"\n", &["limits.memory"]),
            ("types = [\"x\"]\nimage = \"dir:/y\"\noptions = [\"a\"]\n[limits]\nmemory = \"1G\"\n", &["env.A", "image", "options"]),
            (
                "types = [\"x\"]\nimage = \"dir:/x\"\n[limits]\nmemory = \"1G\"\npids = 3\n[env]\nA = \"1\"\nB = \"\"",
                &["env.B", "limits.pids"],
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(keys(&Layer::parse(base).unwrap(), &Layer::parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn changes_are_said_in_one_line() {
        let image = |from: &str, to: &str| Some(ImageChange { from: from.into(), to: to.into() });
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        let changes = Changes { image: image(&digest, "dir:/x"), definition: vec!["env.A".into(), "options".into()] };
        assert_eq!(changes.to_string(), "image 0123456789ab → dir:/x; definition: env.A, options");
        assert_eq!(Changes { image: None, ..changes.clone() }.to_string(), "definition: env.A, options");
        assert!(!changes.is_empty() && Changes::default().is_empty());
    }
}
