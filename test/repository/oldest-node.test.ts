import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')

/** Programs, and documents with programs in them, that users and tests give to Node.js as they are. */
const files = globSync(
  [
    '*.md',
    'docs/**/*.md',
    'packages/*/README.md',
    'packages/*/{src,templates,test/workspace}/**/*.ts',
    'examples/**/*.{md,ts}',
    'benchmarks/*.ts',
    'scripts/*.ts',
  ],
  { cwd: root, exclude: ['**/node_modules/**'] },
)
  // The cases of contracts only ever run in Vitest, which transforms them, or built.
  .filter((file) => !/^packages.testing.src.(adapter|backend)-contract/.test(file))

// What the library lacks there is a type error: `lib` in tsconfig.base.json and @types/node 22.
it('nothing that Node.js 22 runs as it is declares a resource with `using`', () => {
  expect(files.length).toBeGreaterThan(200)
  const found = files.flatMap((file) =>
    readFileSync(path.join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        /^\s*(?:for (?:await )?\()?(?:await )?using \w+ (?:=|of) /.test(line)
          ? [`${file}:${index + 1}`]
          : [],
      ),
  )
  expect(found).toEqual([])
})
