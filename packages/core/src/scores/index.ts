export { json } from './json.ts'
export { numeric, type NumericOptions } from './numeric.ts'
export { contains, type ContainsOptions, exact, matches, type TextOptions } from './text.ts'
export { unitTests, type UnitTestOptions } from './unit-tests.ts'
