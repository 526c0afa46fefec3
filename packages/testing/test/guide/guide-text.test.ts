import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

const guide = path.resolve(import.meta.dirname, '../../../../docs/contributing/write-an-adapter.md')

it.each(['adapter.ts', 'adapter-contract.test.ts'])(
  '%s is what the guide shows, so that its adapter follows the contract',
  (name) => {
    const code = readFileSync(path.join(import.meta.dirname, name), 'utf8')
    expect(readFileSync(guide, 'utf8')).toContain(`\`\`\`ts\n// ${name}\n${code}\`\`\``)
  },
)
