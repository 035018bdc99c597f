//! Columns of text.

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells. The first row may be a heading.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[Align]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, which has a cell for each column.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// The lines, aligned, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| self.rows.iter().map(|row| width(&row[column])).max().unwrap_or(0))
            .collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for ((cell, &align), &column_width) in row.iter().zip(&self.columns).zip(&widths) {
                let blanks = " ".repeat(column_width.saturating_sub(width(cell)));
                match align {
                    Align::Left => line.extend([cell.as_str(), &blanks, "  "]),
                    Align::Right => line.extend([blanks.as_str(), cell, "  "]),
                }
            }
            line.trim_end().to_string()
        };
        self.rows.iter().map(line).collect()
    }
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_line_up() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        table.row(["NAME", "SIZE", "COMMAND"]);
        table.row(["é", "12", "x"]);
        table.row(["long name", "3", ""]);
        assert_eq!(
            table.lines(),
            ["NAME       SIZE  COMMAND", "é            12  x", "long name     3"]
        );
        assert!(Table::new(&[]).lines().is_empty());
    }
}
