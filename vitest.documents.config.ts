import { defineConfig } from 'vitest/config'

import { RetriedTests } from './vitest.retried.ts'
import { testDefaults } from './vitest.shared.ts'

// Kept out of `pnpm test`: some hundred commands, each a process of its own.
export default defineConfig({
  test: {
    ...testDefaults,
    name: 'documents',
    include: ['test/documents/*.test.ts'],
    reporters: ['default', new RetriedTests()],
  },
})
