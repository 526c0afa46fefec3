import { defineConfig } from 'vitest/config'

import { testDefaults } from '../../vitest.shared.ts'

// Tests in the templates are those of the workspaces that are made of them.
export default defineConfig({ test: { ...testDefaults, include: ['test/**/*.test.ts'] } })
