import type { TestProject } from 'vitest/node'

import { cleanUp, packAll, type PackedPackage } from './workspace.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Every public package, packed the way a release does. */
    packed: readonly PackedPackage[]
  }
}

/** Packs for all test files: two that pack concurrently would build in the same folders. */
export async function setup(project: TestProject): Promise<void> {
  project.provide('packed', [...(await packAll()).values()])
}

export const teardown = cleanUp
