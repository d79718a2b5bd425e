//! Circles: files of one crate that name each other in a loop.
//!
//! A file names another by a path: in a `use`, in code, or in a macro's arguments. Paths start at
//! `crate`, `self`, `super`, a child module or a name that a `use` brought in; re-exports are
//! followed to the file that defines the item, and use nothing themselves. A file and those below
//! it may name each other; a circle that leaves this family may not exist. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::tree::{File, Finding, Tree};

/// A module's path from the root of its crate.
type Module = Vec<String>;

/// The circles of every crate below `crates/`.
pub(crate) fn of_files(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in tree.with_extension("rs").filter(|file| !file.is_test()) {
        if let Some((root, _)) = file.path.split_once("/src/") {
            crates.entry(root).or_default().push(file);
        }
    }
    crates
        .into_iter()
        .flat_map(|(root, files)| of_crate(root, &files))
        .collect()
}

fn of_crate(root: &str, files: &[&File]) -> Vec<Finding> {
    let house = House::read(root, files);
    let graph = house.graph();
    let mut findings = Vec::new();
    for circle in circles(&graph) {
        let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
        let path = &house.rooms[&circle[0]].path;
        findings.push(Finding {
            path: path.clone(),
            line: 1,
            what: format!(
                "{} name each other in a circle: move what they share below them",
                names.join(", ")
            ),
        });
    }
    findings
}

/// The declarations and names of one file.
struct Room {
    path: String,
    /// Names from its `use` items, and what they stand for.
    imports: BTreeMap<String, Module>,
    /// Every path that it names, as written.
    named: Vec<Module>,
}

/// The files of one crate, by module.
struct House {
    rooms: BTreeMap<Module, Room>,
}

impl House {
    fn read(root: &str, files: &[&File]) -> Self {
        let rooms = files.iter().map(|file| {
            let parsed = syn::parse_file(&file.text)
                .unwrap_or_else(|error| panic!("{}: {error}", file.path));
            let mut reader = Reader::default();
            reader.visit_file(&parsed);
            let room = Room {
                path: file.path.clone(),
                imports: reader.imports,
                named: reader.named,
            };
            (module_of(root, &file.path), room)
        });
        Self {
            rooms: rooms.collect(),
        }
    }

    /// The other files that each file names, except the root.
    fn graph(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let edges = self.rooms.iter().map(|(module, room)| {
            let targets = room
                .named
                .iter()
                .filter_map(|path| self.resolve(module, path, DEPTH_MAX))
                .filter(|target| target != module && !target.is_empty())
                .collect();
            (module.clone(), targets)
        });
        edges.collect()
    }

    /// The file of this crate that defines the item of a path, if any.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let (mut module, mut rest) = match first.as_str() {
            "crate" => (Module::new(), rest),
            "self" => (from.clone(), rest),
            "super" => (from.split_last()?.1.to_vec(), rest),
            name => match self.rooms[from].imports.get(name) {
                Some(import) if import.as_slice() != path => {
                    let whole = [import.as_slice(), rest].concat();
                    return self.resolve(from, &whole, depth);
                }
                _ if self.rooms.contains_key(&child(from, name)) => (from.clone(), path),
                _ => return None,
            },
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                module.pop()?;
            } else if self.rooms.contains_key(&child(&module, name)) {
                module = child(&module, name);
            } else if let Some(import) = self.rooms[&module].imports.get(name) {
                // A re-export: continue at its source, if that is in this crate.
                let whole = [import.as_slice(), after].concat();
                return self.resolve(&module, &whole, depth).or(Some(module));
            } else {
                break;
            }
            rest = after;
        }
        Some(module)
    }
}

/// Re-exports of re-exports are followed this far.
const DEPTH_MAX: usize = 16;

/// `crates/a/src/b/c.rs` is `[b, c]`; the root of a library or program is empty.
fn module_of(root: &str, path: &str) -> Module {
    let inner = path
        .trim_start_matches(root)
        .trim_start_matches("/src/")
        .trim_end_matches(".rs");
    match inner {
        "lib" | "main" => Module::new(),
        _ => inner.split('/').map(str::to_owned).collect(),
    }
}

fn child(module: &Module, name: &str) -> Module {
    let mut path = module.clone();
    path.push(name.to_owned());
    path
}

fn is_ancestor(module: &Module, other: &Module) -> bool {
    other.len() > module.len() && other.starts_with(module)
}

/// Collects the names in a file, without tests.
#[derive(Default)]
struct Reader {
    imports: BTreeMap<String, Module>,
    named: Vec<Module>,
}

impl Reader {
    fn import(&mut self, before: &Module, tree: &syn::UseTree, is_used: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                self.import(&child(before, &path.ident.to_string()), &path.tree, is_used);
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last() {
                    self.bring_in(last.clone(), before.clone(), is_used);
                }
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.bring_in(name.clone(), child(before, &name), is_used);
            }
            syn::UseTree::Rename(rename) => {
                let whole = match rename.ident.to_string().as_str() {
                    "self" => before.clone(),
                    name => child(before, name),
                };
                self.bring_in(rename.rename.to_string(), whole, is_used);
            }
            syn::UseTree::Glob(_) => self.named.push(before.clone()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(before, tree, is_used);
                }
            }
        }
    }

    fn bring_in(&mut self, name: String, whole: Module, is_used: bool) {
        if is_used {
            self.named.push(whole.clone());
        }
        self.imports.insert(name, whole);
    }

    /// Paths in a macro's arguments: identifiers with `::` between them.
    fn tokens(&mut self, stream: TokenStream) {
        let mut path = Module::new();
        let mut colons = 0;
        for token in stream {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Module) {
        if path.len() > 1 {
            self.named.push(std::mem::take(path));
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            let is_used = matches!(item.vis, syn::Visibility::Inherited);
            self.import(&Module::new(), &item.tree, is_used);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|part| part.ident.to_string());
            self.named.push(names.collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in a::b)` exports, it does not use.
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {
        // Attributes name derives and lints.
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// `#[test]`, or `#[cfg(...)]` with `test` in it.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let mut words = list.tokens.clone().into_iter();
            words.any(|token| matches!(token, TokenTree::Ident(word) if word == "test"))
        }
        _ => false,
    })
}

/// The circles that leave a family: strongly connected components in which no member is the
/// ancestor of all others. Circles through such an ancestor are its own; the rest is searched
/// without it.
fn circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let mut found = Vec::new();
    for circle in components(graph) {
        let is_above_all =
            |top: &&Module| circle.iter().all(|it| it == *top || is_ancestor(top, it));
        let Some(top) = circle.iter().find(is_above_all) else {
            found.push(circle);
            continue;
        };
        let within = |it: &&Module| *it != top && circle.contains(*it);
        let rest = circle.iter().filter(|it| *it != top).map(|it| {
            let targets = graph[it].iter().filter(within).cloned().collect();
            (it.clone(), targets)
        });
        found.extend(circles(&rest.collect()));
    }
    found
}

/// The strongly connected components of more than one node, each in order.
fn components(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = graph
        .keys()
        .map(|start| (start, reachable(graph, start)))
        .collect();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    let mut found = Vec::new();
    for start in graph.keys() {
        let circle: Vec<&Module> = reached[start]
            .iter()
            .copied()
            .filter(|other| reached[*other].contains(start))
            .collect();
        if !circle.is_empty() && seen.insert(circle[0]) {
            found.push(circle.into_iter().cloned().collect());
        }
    }
    found
}

/// Everything reachable from one node. The node itself only through another one.
fn reachable<'a>(
    graph: &'a BTreeMap<Module, BTreeSet<Module>>,
    start: &'a Module,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<&Module> = graph[start].iter().collect();
    while let Some(module) = pending.pop() {
        if reached.insert(module) {
            pending.extend(&graph[module]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// The findings for a crate with these files.
    fn said_of(files: &[(&str, &str)]) -> Vec<String> {
        let files = files
            .iter()
            .map(|(path, text)| file(&format!("crates/x/src/{path}"), text))
            .collect();
        let findings = of_files(&Tree { files });
        findings.into_iter().map(|finding| finding.what).collect()
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");

    fn is_circle(a: &str, b: &str) -> bool {
        let said = said_of(&[LIB, ("a.rs", a), ("b.rs", b), ("c.rs", "pub struct C;")]);
        match said.as_slice() {
            [] => false,
            [what] => what.starts_with("a, b name each other"),
            _ => panic!("{said:?}"),
        }
    }

    #[test]
    fn every_way_to_name_a_file_is_seen() {
        let back = "use super::a::A;";
        assert!(is_circle("use crate::b::B;", back));
        assert!(is_circle("use crate::{c::C, b::{self, B as D}};", back));
        assert!(is_circle("use crate::b::*;", back));
        assert!(is_circle("fn f() { crate::b::g(); }", back));
        assert!(is_circle("use crate::b; fn f() { b::g(); }", back));
        assert!(is_circle(
            "fn f() { println!(\"{}\", crate::b::g()); }",
            back
        ));
        assert!(is_circle("impl From<crate::b::B> for () {}", back));
        assert!(is_circle("use super::b::T as _;", back));
    }

    #[test]
    fn one_direction_is_no_circle_and_tests_do_not_count() {
        assert!(!is_circle("use crate::b::B;", "use crate::c::C;"));
        assert!(!is_circle(
            "use crate::b::B;",
            "#[cfg(test)] mod tests { use crate::a::A; }"
        ));
        assert!(!is_circle("use b::B;", "use super::a::A;"));
        assert!(!is_circle("pub(in crate::b) fn f() {}", "use super::a::A;"));
    }

    #[test]
    fn re_exports_are_followed_and_a_family_may_name_itself() {
        let facade = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod inner; pub use inner::I; use crate::b::B;"),
            ("a/inner.rs", "use super::J; pub struct I;"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(said_of(&facade), Vec::<String>::new());
        let mut through = facade;
        through[2].1 = "use crate::b::B; pub struct I;";
        through[3].1 = "use crate::a::I; pub struct B;";
        let said = said_of(&through);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("a, a::inner, b name") || said[0].starts_with("a::inner, b name")
        );
    }

    #[test]
    fn a_circle_that_leaves_a_family_through_a_child_is_found() {
        let said = said_of(&[
            LIB,
            ("a.rs", "mod inner; use inner::I;"),
            ("a/inner.rs", "use crate::c::C; pub struct I;"),
            ("b.rs", "pub struct B;"),
            ("c.rs", "use crate::a::A; pub struct C;"),
        ]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("a, a::inner, c name"), "{said:?}");
    }

    /// A grandchild may name the file at the top of its family, and that file its child.
    #[test]
    fn a_file_far_below_may_name_the_top() {
        let said = said_of(&[
            LIB,
            ("a.rs", "mod inner; use inner::I;"),
            ("a/inner.rs", "mod core; use core::K; pub struct I;"),
            ("a/inner/core.rs", "use crate::a::A; pub struct K;"),
            ("b.rs", "pub struct B;"),
            ("c.rs", "pub struct C;"),
        ]);
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn a_circle_of_three_is_told_once() {
        let said = said_of(&[
            LIB,
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::a::A;"),
        ]);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("a, b, c name"), "{said:?}");
    }
}
