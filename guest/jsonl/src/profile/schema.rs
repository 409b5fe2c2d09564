//! Renders the nodes as JSON Schema.

use super::Profile;
use super::node::Node;

impl Profile {
    /// Appends the schema of one node.
    pub(super) fn write_schema(&self, node: &Node, json: &mut String) {
        json.push('{');
        self.write_types(node, json);
        if node.types.objects > 0 && !node.unlisted {
            self.write_properties(node, json);
        }
        if let Some(items) = self.nodes.get(node.items as usize)
            && !node.items_unknown
        {
            json.push_str(",\"items\":");
            self.write_schema(items, json);
        }
        json.push('}');
    }

    fn write_types(&self, node: &Node, json: &mut String) {
        let types = &node.types;
        let names = [
            ("object", types.objects > 0),
            ("array", types.arrays > 0),
            ("string", types.strings > 0),
            ("number", types.decimals > 0),
            ("integer", types.integers > 0 && types.decimals == 0),
            ("boolean", types.booleans > 0),
            ("null", types.nulls > 0),
        ];
        let names: Vec<_> = names.iter().filter(|(_, seen)| *seen).map(|(name, _)| format!("\"{name}\"")).collect();
        match names.as_slice() {
            [] => {}
            [name] => json.push_str(&format!("\"type\":{name}")),
            names => json.push_str(&format!("\"type\":[{}]", names.join(","))),
        }
    }

    fn write_properties(&self, node: &Node, json: &mut String) {
        let mut required = Vec::new();
        json.push_str(",\"properties\":{");
        for (order, property) in self.properties(node).enumerate() {
            let key = property.key();
            if order > 0 {
                json.push(',');
            }
            json.push_str(&format!("\"{key}\":"));
            self.write_schema(property, json);
            if property.present == node.types.objects {
                required.push(format!("\"{key}\""));
            }
        }
        json.push('}');
        if !required.is_empty() {
            json.push_str(&format!(",\"required\":[{}]", required.join(",")));
        }
    }
}
