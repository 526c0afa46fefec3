import { defineConfig } from 'vitest/config'

import { testDefaults } from './vitest.shared.ts'

// Kept out of `pnpm test`: it shows that the fault run would notice what it looks for.
export default defineConfig({
  test: { ...testDefaults, name: 'faults', include: ['test/faults/*.test.ts'] },
})
