//! Lists, tuples, sets, intervals, and what is said of them.

use std::sync::Arc;

use super::super::evaluate;
use super::super::expr::{Domain, Expr, RealInterval, Relation, RelationKind, SetOperation, SharedExpr};
use super::super::token::{Pair, TokenKind, UNIT};
use super::Parser;

impl Parser<'_> {
    /// `names = list`, without further relations in the list.
    pub(super) fn assignment(&mut self) -> Option<SharedExpr> {
        let left = self.names()?;
        self.eat(TokenKind::In).or_else(|| self.eat(TokenKind::Assign))?;
        let right = self.rows(false).map(elements_to_answer)?;
        Some(equation(left, right))
    }

    pub(super) fn list(&mut self) -> Option<SharedExpr> {
        self.rows(true).map(elements_to_answer)
    }

    /// Sets, what is an element of them, and what was made of them.
    pub(super) fn set_relation(&mut self) -> Option<SharedExpr> {
        let named = self.attempt(|parser| {
            let names = parser.names()?;
            let kind = parser.next()?.kind;
            let set = parser.deeper(Self::set_relation)?;
            match kind {
                TokenKind::In | TokenKind::Assign => Some(equation(names, set)),
                TokenKind::NotIn => Some(Arc::new(Expr::Not(equation(names, set)))),
                _ => None,
            }
        });
        named.or_else(|| self.set_difference())
    }

    /// `x`, or `(x, y)`.
    fn names(&mut self) -> Option<SharedExpr> {
        let tuple = self.attempt(|parser| {
            parser.eat(TokenKind::Open(Pair::Paren))?;
            let mut names = vec![parser.variable()?];
            while parser.eat(TokenKind::Comma).is_some() {
                names.push(parser.variable()?);
            }
            parser.eat(TokenKind::Close(Pair::Paren))?;
            Some(names)
        });
        match tuple {
            Some(mut names) if names.len() == 1 => names.pop(),
            Some(names) => Some(Arc::new(Expr::Tuple(names))),
            None => self.attempt(Self::variable),
        }
    }

    fn set_difference(&mut self) -> Option<SharedExpr> {
        self.set_chain(TokenKind::SetMinus, SetOperation::Difference, Self::set_union)
    }

    fn set_union(&mut self) -> Option<SharedExpr> {
        self.set_chain(TokenKind::Union, SetOperation::Union, Self::set_intersection)
    }

    fn set_intersection(&mut self) -> Option<SharedExpr> {
        self.set_chain(TokenKind::Intersection, SetOperation::Intersection, Self::set_group)
    }

    fn set_chain(
        &mut self,
        sign: TokenKind,
        operation: SetOperation,
        operand: fn(&mut Self) -> Option<SharedExpr>,
    ) -> Option<SharedExpr> {
        let mut left = operand(self)?;
        let mut length = 0;
        while self.eat(sign).is_some() {
            length += 1;
            let right = operand(self)?;
            left = Arc::new(Expr::Combine(operation, as_set(left), as_set(right)));
        }
        // The nodes of a chain are nested to the left.
        (length <= super::MAX_DEPTH).then_some(left)
    }

    fn set_group(&mut self) -> Option<SharedExpr> {
        let grouped = self.attempt(|parser| {
            parser.eat(TokenKind::Open(Pair::Paren))?;
            let inner = parser.deeper(Self::set_difference)?;
            parser.eat(TokenKind::Close(Pair::Paren))?;
            Some(inner)
        });
        grouped.or_else(|| self.set_atom())
    }

    fn set_atom(&mut self) -> Option<SharedExpr> {
        self.deeper(|parser| {
            parser
                .attempt(Self::interval)
                .or_else(|| parser.attempt(Self::domain))
                .or_else(|| parser.attempt(Self::tuple))
                .or_else(|| parser.attempt(Self::finite_set))
        })
    }

    /// `(a, b]` and the like; a pair where no interval can be meant.
    fn interval(&mut self) -> Option<SharedExpr> {
        use Pair::{Bracket, BracketCommand, Group, Paren, ParenVisual};
        let TokenKind::Open(open @ (Paren | ParenVisual | Group | Bracket | BracketCommand)) =
            self.next()?.kind
        else {
            return None;
        };
        let from = self.sum()?;
        self.eat(TokenKind::Comma)?;
        let to = self.sum()?;
        let TokenKind::Close(close @ (Paren | ParenVisual | Group | Bracket | BracketCommand)) =
            self.next()?.kind
        else {
            return None;
        };
        let (mut from_open, mut to_open) =
            (!matches!(open, Bracket | BracketCommand), !matches!(close, Bracket | BracketCommand));
        let ends = [&from, &to].map(|end| evaluate::constant(end, self.budget).and_then(|end| end.real()));
        if let [Some(left), Some(right)] = ends {
            let empty = right < left || (right == left && (from_open || to_open));
            if empty && from_open == to_open {
                return Some(Arc::new(Expr::Tuple(vec![from, to])));
            }
            if empty {
                return Some(Arc::new(Expr::Domain(Domain::Empty)));
            }
            if left == right {
                return Some(Arc::new(Expr::Set(vec![from])));
            }
            from_open |= left.is_infinite();
            to_open |= right.is_infinite();
        }
        Some(Arc::new(Expr::Interval(RealInterval { from, to, from_open, to_open })))
    }

    fn domain(&mut self) -> Option<SharedExpr> {
        match self.next()?.kind {
            TokenKind::Domain(domain) => Some(Arc::new(Expr::Domain(domain))),
            TokenKind::Open(Pair::Brace) => {
                self.eat(TokenKind::Close(Pair::Brace))?;
                Some(Arc::new(Expr::Domain(Domain::Empty)))
            }
            _ => None,
        }
    }

    fn tuple(&mut self) -> Option<SharedExpr> {
        let TokenKind::Open(pair @ (Pair::Paren | Pair::ParenVisual | Pair::Bracket | Pair::Angle)) =
            self.next()?.kind
        else {
            return None;
        };
        let mut elements = self.rows(true)?.concat();
        self.eat(TokenKind::Close(pair))?;
        if elements.len() == 1 { elements.pop() } else { Some(Arc::new(Expr::Tuple(elements))) }
    }

    fn finite_set(&mut self) -> Option<SharedExpr> {
        let boxed = self.eat(TokenKind::Boxed).is_some();
        let TokenKind::Open(pair @ (Pair::Brace | Pair::BraceVisual)) = self.next()?.kind else {
            return None;
        };
        let rows = self.rows(true)?;
        self.eat(TokenKind::Close(pair))?;
        match (boxed, pair) {
            (true, Pair::Brace) => Some(elements_to_answer(rows)),
            (true, _) => None,
            // Braces that only group.
            (false, Pair::Brace) => Some(Arc::new(Expr::List(rows.concat()))),
            (false, _) => Some(Arc::new(Expr::Set(rows.concat()))),
        }
    }

    fn rows(&mut self, relations: bool) -> Option<Vec<Vec<SharedExpr>>> {
        let mut rows = vec![self.row(relations)?];
        while self.eat(TokenKind::Semicolon).is_some() {
            rows.push(self.row(relations)?);
        }
        Some(rows)
    }

    fn row(&mut self, relations: bool) -> Option<Vec<SharedExpr>> {
        let mut row = self.element(relations)?;
        let mut either = false;
        loop {
            if self.eat(TokenKind::Either).is_some() {
                either = true;
            } else if self.eat(TokenKind::Comma).is_none() {
                break;
            }
            row.extend(self.element(relations)?);
        }
        if either && row.iter().all(|element| !element.relations().is_empty()) {
            // The nodes of a union are nested to the left.
            return (row.len() <= super::MAX_DEPTH as usize).then(|| {
                let union = |left, right| Arc::new(Expr::Combine(SetOperation::Union, left, right));
                row.into_iter().reduce(union).into_iter().collect()
            });
        }
        Some(row)
    }

    /// One element, or the two of a `±`.
    fn element(&mut self, relations: bool) -> Option<Vec<SharedExpr>> {
        if !relations {
            return self
                .attempt(Self::plus_minus)
                .or_else(|| self.attempt(Self::lone_set))
                .or_else(|| self.sum().and_then(|sum| Some(vec![self.with_unit(sum)?])));
        }
        let start = self.at;
        if let Some(known) = self.elements.get(&start) {
            let (element, end) = known.clone()?;
            self.at = end;
            return Some(element);
        }
        let element = self
            .attempt(Self::plus_minus)
            .or_else(|| self.attempt(Self::lone_set))
            .or_else(|| self.relation().and_then(|relation| Some(vec![self.with_unit(relation)?])));
        self.elements.insert(start, element.clone().map(|element| (element, self.at)));
        element
    }

    /// What was read, with the words behind it, if there are any.
    pub(super) fn with_unit(&mut self, node: SharedExpr) -> Option<SharedExpr> {
        if self.peek() != Some(TokenKind::Unit) {
            return Some(node);
        }
        let text = self.next()?.text;
        let text = text.strip_prefix(UNIT)?.strip_suffix('}')?;
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let on = |relation: &Relation| Relation {
            right: Arc::new(Expr::Measured(relation.right.clone(), words.clone())),
            ..relation.clone()
        };
        Some(Arc::new(match &*node {
            Expr::Relation(relation) => Expr::Relation(on(relation)),
            Expr::Chain(chain) => {
                let (last, before) = chain.split_last()?;
                Expr::Chain(before.iter().cloned().chain([on(last)]).collect())
            }
            _ => Expr::Measured(node, words),
        }))
    }

    /// A set that is not the beginning of something else.
    fn lone_set(&mut self) -> Option<Vec<SharedExpr>> {
        let set = self.set_atom()?;
        use TokenKind::{Close, Comma, Either, Semicolon, Unit};
        matches!(self.peek(), None | Some(Comma | Semicolon | Close(_) | Either | Unit)).then(|| vec![set])
    }

    fn plus_minus(&mut self) -> Option<Vec<SharedExpr>> {
        let middle = self.attempt(Self::sum);
        self.eat(TokenKind::PlusMinus)?;
        let spread = self.sum()?;
        let minus: SharedExpr = Arc::new(Expr::negative(spread.clone()));
        Some(match middle {
            None => vec![minus, spread],
            Some(middle) => {
                vec![Arc::new(Expr::sum(middle.clone(), spread)), Arc::new(Expr::sum(middle, minus))]
            }
        })
    }

    /// `a < b = c`.
    fn relation(&mut self) -> Option<SharedExpr> {
        let mut last = self.sum()?;
        let mut only_symbols = last.only_symbols();
        let mut chain = Vec::new();
        loop {
            let kind = match self.peek() {
                Some(TokenKind::Assign | TokenKind::Equal) => RelationKind::Equal,
                Some(TokenKind::Compare(kind)) => kind,
                Some(TokenKind::Approximately) => {
                    self.next()?;
                    let right = self.sum()?;
                    // Of a name we take what it is about, of anything else what is more exact.
                    if only_symbols {
                        only_symbols = right.only_symbols();
                        chain.clear();
                        last = right;
                    }
                    continue;
                }
                _ => break,
            };
            self.next()?;
            let right = self.sum()?;
            only_symbols &= right.only_symbols();
            chain.push(Relation { kind, left: last, right: right.clone() });
            last = right;
        }
        if chain.len() > 1 {
            return Some(Arc::new(Expr::Chain(chain)));
        }
        Some(chain.pop().map_or(last, |relation| Arc::new(Expr::Relation(relation))))
    }
}

fn equation(left: SharedExpr, right: SharedExpr) -> SharedExpr {
    Arc::new(Expr::Relation(Relation { kind: RelationKind::Equal, left, right }))
}

/// A tuple among sets was meant as a set.
fn as_set(node: SharedExpr) -> SharedExpr {
    match &*node {
        Expr::Tuple(elements) => Arc::new(Expr::Set(elements.clone())),
        _ => node,
    }
}

/// One element is itself, several are a list, and so are several rows, of tuples.
fn elements_to_answer(mut rows: Vec<Vec<SharedExpr>>) -> SharedExpr {
    if rows.len() == 1 {
        let mut row = rows.swap_remove(0);
        return if row.len() == 1 { row.swap_remove(0) } else { Arc::new(Expr::List(row)) };
    }
    if rows.iter().all(|row| row.len() == 1) {
        return Arc::new(Expr::List(rows.concat()));
    }
    Arc::new(Expr::List(rows.into_iter().map(|row| Arc::new(Expr::Tuple(row)) as SharedExpr).collect()))
}
