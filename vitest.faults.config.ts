import { defineConfig } from 'vitest/config'

import { RetriedTests } from './vitest.retried.ts'
import { testDefaults } from './vitest.shared.ts'

// Kept out of `pnpm test`: it shows that the fault runs would notice what they look for.
export default defineConfig({
  test: {
    ...testDefaults,
    name: 'faults',
    include: ['test/{faults,distributed,trainers}/*.test.ts'],
    reporters: ['default', new RetriedTests()],
  },
})
