export { json } from './scores/json.ts'
export { numeric, type NumericOptions } from './scores/numeric.ts'
export { contains, type ContainsOptions, exact, matches, type TextOptions } from './scores/text.ts'
export { unitTests, type UnitTestOptions } from './scores/unit-tests.ts'
