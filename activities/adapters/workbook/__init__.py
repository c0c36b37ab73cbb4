"""Workbooks: typed edits of .xlsx and .xlsm files that leave every untouched part byte for byte as it was."""
