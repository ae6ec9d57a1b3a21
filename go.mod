module fairlead

go 1.26.0
