// Package layout holds no code: its test checks who imports whom, and says why where somebody imports what they must
// not. docs/DESIGN.md has the picture.
package layout
