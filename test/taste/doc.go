// Package taste tests what a compiler does not: the conventions of this tree.
//
// Each test covers one convention, and each failure says what to do about it. A
// convention that turns out to be wrong is changed here, in the change that
// departs from it.
package taste
