import { defineConfig } from 'vitest/config'

import { runDefaults, testDefaults } from './vitest.shared.ts'

// Kept out of `pnpm test`: it shows that the fault runs notice the faults that they look for.
export default defineConfig({
  test: {
    ...testDefaults,
    ...runDefaults,
    name: 'faults',
    include: ['test/{faults,distributed,trainers}/*.test.ts'],
  },
})
